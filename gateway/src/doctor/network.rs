//! The network to an origin: the time in which a connection stands, and the rate of the interface.
//!
//! The rate of a network cannot be measured without the origin at its end. But the interface says its own, and a network is
//! never faster than that. If the origin runs on this machine, the rate of the machine's own TCP is measured.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use http::Uri;
use nix::ifaddrs::getifaddrs;
use nix::sys::socket::SockaddrStorage;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::Progress;
use tidegate_config::Origin;
use tidegate_plan::diagnosis::{MeasuredNetwork, Rate};

/// The connections that are opened, one after the other.
const CONNECTIONS: usize = 7;

/// The longest time of the measurement of this machine's TCP.
const MAX_LOCAL_TIME: Duration = Duration::from_millis(500);

/// The bytes of one write to a socket.
const WRITE_SIZE: usize = 256 << 10;

/// Measures the network to the endpoint of `origin`.
///
/// # Errors
/// If the endpoint has no address, or does not accept a connection.
pub(super) async fn measure(
    origin: &Origin,
    time: Duration,
    progress: &mut Progress,
) -> anyhow::Result<MeasuredNetwork> {
    let name = &origin.name;
    progress.begin(format_args!("network to {name:?}: connecting"));
    let connected = connect(origin).await;
    let NetworkPath {
        local,
        remote,
        round_trip,
    } = progress.end(connected)?;
    let interface = interface(local)?;
    let rate = match local == remote || remote.is_loopback() {
        true => {
            progress.begin(format_args!("network to {name:?}: this machine's own TCP"));
            let time = time.min(MAX_LOCAL_TIME);
            let rate = spawn_blocking(move || local_rate(time)).await?;
            Some(progress.end(rate)?)
        }
        false => interface_rate(Path::new("/sys/class/net"), &interface),
    };
    Ok(MeasuredNetwork {
        origin: name.clone(),
        interface,
        rate,
        round_trip,
    })
}

/// The address of this end, that of the other, and the median time in which a connection stands.
struct NetworkPath {
    local: IpAddr,
    remote: IpAddr,
    round_trip: Duration,
}

impl fmt::Display for NetworkPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = self.round_trip.as_secs_f64() * 1e3;
        write!(f, "{}, {millis:.1} ms", self.remote)
    }
}

/// Opens connections to the endpoint, one after the other.
async fn connect(origin: &Origin) -> anyhow::Result<NetworkPath> {
    let (host, port) = endpoint(origin)?;
    let limit = origin.connect_timeout.0;
    let looked_up = timeout(limit, tokio::net::lookup_host((&*host, port))).await;
    let looked_up = looked_up
        .context("its name was not looked up in time")?
        .with_context(|| format!("the name {host:?}"))?;
    let addresses: Vec<_> = looked_up.collect();
    let mut times = Vec::new();
    let mut ends = None;
    for _ in 0..CONNECTIONS {
        let begun = Instant::now();
        let stream = timeout(limit, tokio::net::TcpStream::connect(&addresses[..])).await;
        let stream = stream.context("no connection in time")??;
        times.push(begun.elapsed());
        ends = Some((stream.local_addr()?.ip(), stream.peer_addr()?.ip()));
    }
    let (local, remote) = ends.context("no connection")?;
    times.sort_unstable();
    Ok(NetworkPath {
        local,
        remote,
        round_trip: times[times.len() / 2],
    })
}

/// Returns the host and the port of an origin's endpoint; without one, those of AWS in its region.
fn endpoint(origin: &Origin) -> anyhow::Result<(String, u16)> {
    let Some(endpoint) = &origin.endpoint else {
        let region = &origin.region;
        let country = if region.starts_with("cn-") { ".cn" } else { "" };
        return Ok((format!("s3.{region}.amazonaws.com{country}"), 443));
    };
    let uri: Uri = endpoint.parse().context("its endpoint is no URL")?;
    let host = uri.host().context("its endpoint has no host")?;
    // An IPv6 address stands in brackets.
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let standard = match uri.scheme_str() {
        Some("http") => 80,
        _ => 443,
    };
    Ok((host.to_owned(), uri.port_u16().unwrap_or(standard)))
}

/// Returns the interface that has this address.
fn interface(address: IpAddr) -> anyhow::Result<String> {
    let address = address.to_canonical();
    let has = |storage: SockaddrStorage| {
        let v4 = storage.as_sockaddr_in().map(|one| IpAddr::V4(one.ip()));
        let v6 = storage.as_sockaddr_in6().map(|one| IpAddr::V6(one.ip()));
        v4.or(v6) == Some(address)
    };
    let mut interfaces = getifaddrs()?;
    let found = interfaces.find(|interface| interface.address.is_some_and(has));
    let found = found.with_context(|| format!("no interface has the address {address}"))?;
    Ok(found.interface_name)
}

/// Returns the rate that an interface says of itself. `None` if it says none, or if no device is behind it: what a virtual
/// interface says means nothing.
fn interface_rate(interfaces: &Path, name: &str) -> Option<Rate> {
    let folder = interfaces.join(name);
    let lower = std::fs::read_dir(&folder).ok()?.flatten();
    let mut lower = lower.filter(|one| one.file_name().to_string_lossy().starts_with("lower_"));
    let is_device = |folder: &Path| folder.join("device").exists();
    if !is_device(&folder) && !lower.any(|one| is_device(&one.path())) {
        return None;
    }
    let megabits = std::fs::read_to_string(folder.join("speed")).ok()?;
    let megabits: i64 = megabits.trim().parse().ok()?;
    (megabits > 0).then(|| Rate(megabits as f64 * 1e6 / 8.0))
}

/// Measures the rate of one connection of this machine to itself.
fn local_rate(time: Duration) -> anyhow::Result<Rate> {
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    let mut writer = TcpStream::connect(listener.local_addr()?)?;
    let (mut reader, _) = listener.accept()?;
    let begun = Instant::now();
    let writing = std::thread::spawn(move || -> io::Result<()> {
        let block = vec![1; WRITE_SIZE];
        while begun.elapsed() < time {
            writer.write_all(&block)?;
        }
        Ok(())
    });
    let mut block = vec![0; WRITE_SIZE];
    let mut bytes = 0;
    loop {
        match reader.read(&mut block)? {
            0 => break,
            read => bytes += read as u64,
        }
    }
    let elapsed = begun.elapsed();
    let written = writing.join();
    ensure!(
        matches!(written, Ok(Ok(()))),
        "a connection to itself broke"
    );
    Ok(Rate::new(bytes, elapsed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_has_a_host_and_a_port() {
        for (endpoint_url, region, expected) in [
            (Some("http://127.0.0.1:9000"), "", ("127.0.0.1", 9000)),
            (Some("http://nas/"), "", ("nas", 80)),
            (Some("https://s3.example.com"), "", ("s3.example.com", 443)),
            (
                Some("https://[2001:db8::1]:9000"),
                "",
                ("2001:db8::1", 9000),
            ),
            (None, "eu-west-1", ("s3.eu-west-1.amazonaws.com", 443)),
            (None, "cn-north-1", ("s3.cn-north-1.amazonaws.com.cn", 443)),
        ] {
            let origin = Origin {
                endpoint: endpoint_url.map(str::to_owned),
                region: region.to_owned(),
                ..Origin::default()
            };
            let (host, port) = endpoint(&origin).expect("right");
            assert_eq!((&*host, port), expected);
        }
        let origin = Origin {
            endpoint: Some("/no/host".to_owned()),
            ..Origin::default()
        };
        assert!(endpoint(&origin).is_err());
    }

    #[test]
    fn only_an_interface_with_a_device_says_its_rate() {
        let folder = tempfile::tempdir().expect("a folder");
        let make = |name: &str, speed: &str, inside: Option<&str>| {
            let made = folder.path().join(name);
            std::fs::create_dir_all(made.join(inside.unwrap_or("queues"))).expect("a folder");
            std::fs::write(made.join("speed"), speed).expect("a file");
        };
        make("eth0", "1000\n", Some("device"));
        make("unknown", "-1\n", Some("device"));
        make("br0", "2500\n", Some("lower_eth1/device"));
        make("veth1", "10000\n", None);
        make("vlan", "10000\n", Some("lower_veth2"));
        for (name, expected) in [
            ("eth0", Some(Rate(125e6))),
            ("br0", Some(Rate(312.5e6))),
            ("unknown", None),
            ("veth1", None),
            ("vlan", None),
            ("none", None),
        ] {
            assert_eq!(interface_rate(folder.path(), name), expected, "{name}");
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn the_network_to_an_origin_on_this_machine_is_its_own() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a socket");
        let address = listener.local_addr().expect("an address");
        let origin = Origin {
            name: "media".to_owned(),
            endpoint: Some(format!("http://{address}")),
            ..Origin::default()
        };
        let mut progress = Progress::new(io::sink());
        let time = Duration::from_millis(10);
        let network = measure(&origin, time, &mut progress).await.expect("open");
        assert_eq!((&*network.origin, &*network.interface), ("media", "lo"));
        assert!(network.rate > Some(Rate(0.0)), "{network:?}");
        assert!(network.round_trip > Duration::ZERO, "{network:?}");
        drop(listener);
        let refused = measure(&origin, time, &mut progress).await;
        assert!(refused.is_err(), "{refused:?}");
    }
}
