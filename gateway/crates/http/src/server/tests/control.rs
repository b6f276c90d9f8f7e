//! Listeners and settings that change while the server runs.

use super::*;
use crate::server::control::{Changes, Control};

/// Returns a listener on any port, and its address.
async fn listener() -> (Listen, Listener) {
    let any = Listen::Tcp(([127, 0, 0, 1], 0).into());
    let listener = Listener::bind(&any, 0o600).await.expect("a free port");
    (listener.address().expect("bound"), listener)
}

/// Returns a server with one listener, and its control.
async fn controlled(settings: Settings) -> (Running, Arc<Control>) {
    let (address, listener) = listener().await;
    let (control, changes) = Control::new(settings, vec![(address.clone(), listener)]);
    let live = control.settings();
    (Running::serving(address, 10, live, changes), control)
}

async fn connected(address: &Listen) -> std::io::Result<TcpStream> {
    let Listen::Tcp(address) = address else {
        panic!("not on TCP")
    };
    TcpStream::connect(address).await
}

#[tokio::test]
async fn a_listener_comes_and_another_goes_in_order() {
    let (mut server, control) = controlled(patient()).await;
    let mut idle = server.ask("/").await;
    head(&mut idle).await;
    let mut busy = server.ask("/wait").await;
    server.handler.arrived.notified().await;

    let (address, new) = listener().await;
    let added = vec![(address.clone(), new)];
    control.replace_listeners(Vec::new(), added).await;
    assert_eq!(control.listeners(), [(address.clone(), false)]);
    connected(&server.address).await.expect_err("closed");
    assert_eq!(
        rest(&mut idle).await,
        server.handler.fake.bytes,
        "idle ones close"
    );
    let old = std::mem::replace(&mut server.address, address);
    let mut fresh = server.ask("/").await;
    head(&mut fresh).await;

    // The same address again, while a connection of the old listener is still answered.
    let again = Listener::bind(&old, 0o600).await.expect("free again");
    let kept = control.listeners();
    let added = vec![(old.clone(), again)];
    control.replace_listeners(kept, added).await;
    connected(&old).await.expect("open again");
    assert_eq!(body(&mut fresh, 10).await, server.handler.fake.bytes);
    fresh
        .write_all(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        .await
        .expect("a kept listener's connections go on");
    head(&mut fresh).await;

    server.handler.go.notify_one();
    let last = head(&mut busy).await;
    assert!(last.contains("connection: close\r\n"), "{last}");
    assert_eq!(rest(&mut busy).await, server.handler.fake.bytes);
    drop(fresh);
    server.end().await;
    // After the end, a listener is closed at once.
    let (address, late) = listener().await;
    let added = vec![(address.clone(), late)];
    control.replace_listeners(Vec::new(), added).await;
    connected(&address).await.expect_err("closed");
}

#[tokio::test]
async fn answers_of_a_listener_that_has_gone_have_a_deadline() {
    let settings = Settings {
        drain: SHORT,
        ..patient()
    };
    let (server, control) = controlled(settings).await;
    let mut busy = server.ask("/wait").await;
    server.handler.arrived.notified().await;
    control.replace_listeners(Vec::new(), Vec::new()).await;
    assert_eq!(rest(&mut busy).await, b"");
    server.end().await;
}

#[tokio::test]
async fn a_duplicate_takes_the_connections_that_wait() {
    let (server, control) = controlled(patient()).await;
    let own = control.duplicate(&server.address).expect("a descriptor");
    let added = vec![(server.address.clone(), own.expect("open"))];
    control.replace_listeners(Vec::new(), added).await;
    let mut stream = server.ask("/").await;
    head(&mut stream).await;
    drop(stream);
    let (other, _) = listener().await;
    let none = control.duplicate(&other).expect("no descriptor is needed");
    assert!(none.is_none());
    server.end().await;
}

#[tokio::test]
async fn the_limit_of_connections_follows_the_settings() {
    let limited = |connections| Settings {
        connections,
        ..patient()
    };
    let (server, control) = controlled(limited(1)).await;
    let mut first = server.ask("/").await;
    head(&mut first).await;
    let mut second = server.ask("/").await;
    let early = timeout(SHORT, second.read_u8()).await;
    assert!(early.is_err(), "waits for a place");
    control.replace_settings(limited(2));
    head(&mut second).await;
    // One place fewer than there are connections: the end of one makes no room for a third.
    control.replace_settings(limited(1));
    let mut third = server.ask("/").await;
    drop(first);
    let early = timeout(SHORT, third.read_u8()).await;
    assert!(early.is_err(), "waits for a place");
    drop(second);
    head(&mut third).await;
    drop(third);
    server.end().await;
}

#[tokio::test]
async fn without_a_control_the_listeners_stay() {
    let (address, own) = listener().await;
    let changes = Changes::fixed(vec![own]);
    let settings = patient().into();
    let server = Running::serving(address, 10, settings, changes);
    let mut stream = server.ask("/").await;
    head(&mut stream).await;
    drop(stream);
    server.end().await;
}
