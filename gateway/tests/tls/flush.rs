//! Bytes that TLS keeps after a write, and hands to the kernel at a flush.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use tidegate_plan::Listen;
use tidegate_socket::{Connection as _, Listener, Stream};
use tidegate_tls::{CertificateFiles, KeySource, PreparedCertificates, Side, Tls, TlsSettings};
use tokio::io::{AsyncReadExt as _, AsyncWrite as _};
use tokio::time::timeout;

use crate::LONG;
use crate::authority::{Authority, connect};

/// Returns a listener with TLS for `a.example`.
async fn listener(authority: &Authority) -> Listener {
    let folder = tempfile::tempdir().expect("a folder");
    authority.write(folder.path(), "a", &["a.example"]);
    let settings = TlsSettings {
        certificates: vec![CertificateFiles {
            certificate: folder.path().join("a.pem"),
            key: KeySource::File(folder.path().join("a.key")),
            is_awaited: false,
        }],
        client_ca: None,
    };
    let prepared = PreparedCertificates::read(settings, &Arc::default()).expect("right files");
    let any = Listen::Tcp(([127, 0, 0, 1], 0).into());
    let mut listener = Listener::bind(&any, 0o600).await.expect("a free port");
    listener.set_tls(Tls::new(prepared).acceptor(Side::Public));
    listener
}

/// Flushes once, past the kernel's report; returns whether bytes are left.
async fn waits(stream: &mut Stream) -> bool {
    stream.retry_write();
    poll_fn(|cx| Poll::Ready(Pin::new(&mut *stream).poll_flush(cx).is_pending())).await
}

#[tokio::test]
async fn a_flush_that_waits_tells_whether_the_kernel_has_taken_bytes() {
    let authority = Authority::new();
    let listener = listener(&authority).await;
    let Listen::Tcp(address) = listener.address().expect("bound") else {
        panic!("not on TCP")
    };
    let config = authority.client(&["http/1.1"]);
    let opened = async { listener.accept().await.expect("a client").open(LONG).await };
    let (client, opened) = tokio::join!(connect(address, &config, "a.example"), opened);
    let (mut client, (mut server, _)) = (client.expect("TLS"), opened.expect("TLS"));
    let bytes = [7; 16 << 10];
    // The kernel moves bytes in its own time, and then takes no more.
    let filled = async {
        loop {
            let written = poll_fn(|cx| Poll::Ready(Pin::new(&mut server).poll_write(cx, &bytes)));
            let is_full = written.await.is_pending() && waits(&mut server).await;
            if is_full && !server.take_handed_on() {
                break;
            }
            tokio::task::yield_now().await;
        }
    };
    timeout(LONG, filled).await.expect("it is full");
    let mut taken = vec![0; 256 << 10];
    let read = timeout(LONG, client.read_exact(&mut taken)).await;
    read.expect("in time").expect("open");
    let handed_on = async {
        waits(&mut server).await;
        while !server.take_handed_on() {
            tokio::task::yield_now().await;
            waits(&mut server).await;
        }
    };
    timeout(LONG, handed_on).await.expect("there is room");
}
