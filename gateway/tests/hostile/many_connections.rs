//! Very many connections that send nothing, and many that read nothing.

use futures_util::StreamExt;
use futures_util::stream;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::net::TcpStream;

use crate::target::Target;
use crate::wire::{connect, send};

const CONNECTIONS: usize = 10_000;

/// Lets this process, and the program that it starts, open enough sockets for the attack.
fn raise_the_limit_of_files() {
    let needed = CONNECTIONS as u64 + 2000;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= needed) {
        return;
    }
    let raised = Rlimit {
        current: Some(needed),
        maximum: limit.maximum.map(|maximum| maximum.max(needed)),
    };
    setrlimit(Resource::Nofile, raised).unwrap_or_else(|error| {
        panic!("this attack needs {needed} open files, and {limit:?} cannot be raised: {error}")
    });
}

/// Connects and sends `request`, some at a time; connections without a place wait in the kernel's queue.
async fn attack(target: &Target, count: usize, request: &[u8]) -> Vec<TcpStream> {
    let one = async |_| {
        let mut stream = connect(target).await;
        let _ = send(&mut stream, request).await;
        stream
    };
    let all = stream::iter(0..count).map(one).buffer_unordered(200);
    all.collect().await
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_connections() {
    raise_the_limit_of_files();
    let target = Target::start().await;
    let silent = attack(&target, CONNECTIONS, b"GET /small HT");
    let held = target
        .besiege("10,000 silent connections", silent)
        .await
        .bore();
    target.quiet().await;
    drop(held);
}

/// Each is idle after its answer, for longer than a client would wait for a place.
#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_idle_connections() {
    raise_the_limit_of_files();
    let target = Target::start().await;
    let idle = attack(
        &target,
        CONNECTIONS,
        b"GET /small HTTP/1.1\r\nHost: h\r\n\r\n",
    );
    let held = target.besiege("10,000 idle connections", idle).await.bore();
    target.quiet().await;
    drop(held);
}

/// Each connection requests a chunk again and again, and reads nothing. The kernel holds up to some MiB of each.
#[tokio::test(flavor = "multi_thread")]
async fn connections_that_read_nothing() {
    let target = Target::start().await;
    let request = "GET /fill/1 HTTP/1.1\r\nHost: h\r\n\r\n".repeat(40);
    let deaf = attack(&target, 300, request.as_bytes());
    let held = target.besiege("300 deaf connections", deaf).await.bore();
    target.quiet().await;
    assert_eq!(target.metric(&["tidegate_memory_pinned_bytes"]).await, 0);
    drop(held);
}
