//! The slowest stage, from the bucket to the client.

use super::*;

/// Creates the network to an origin, through an interface of `rate` MB/s, if it says its rate.
fn network(origin: &str, rate: Option<f64>, millis: u64) -> MeasuredNetwork {
    MeasuredNetwork {
        origin: origin.to_owned(),
        interface: "eth0".to_owned(),
        rate: rate.map(mb),
        round_trip: Duration::from_millis(millis),
    }
}

/// A home server whose origin is behind 1 Gbit/s: 125 MB/s, of which 118 are bytes of bodies.
fn home(origin_rate: f64, network_rate: Option<f64>) -> Measurements {
    let origin = origin("nas", 2, &[(1, origin_rate)]);
    let mut measured = measured(vec![disk("/ssd", 500.0, 0.2)], vec![origin]);
    measured.networks = vec![
        network("other", Some(1.0e5), 1),
        network("nas", network_rate, 1),
    ];
    measured
}

#[test]
fn an_origin_that_takes_nearly_all_of_its_network_is_not_the_slowest_stage() {
    let (of_origin, of_network) = (Stage::Origin("nas".into()), Stage::Network("nas".into()));
    for (origin_rate, network_rate, expected) in [
        (118.0, Some(125.0), (of_network.clone(), mb(125.0))),
        (106.25, Some(125.0), (of_network, mb(125.0))),
        (106.2, Some(125.0), (of_origin.clone(), mb(106.2))),
        (118.0, None, (of_origin.clone(), mb(118.0))),
        (118.0, Some(1250.0), (of_origin, mb(118.0))),
    ] {
        let said = judge(&home(origin_rate, network_rate));
        assert_eq!(said.bottleneck, expected, "{origin_rate}, {network_rate:?}");
    }
}

#[test]
fn a_client_that_takes_less_than_all_else_gives_is_the_slowest_stage() {
    let mut measured = home(118.0, Some(125.0));
    measured.client = Some(mb(11.5));
    assert_eq!(judge(&measured).bottleneck, (Stage::Client, mb(11.5)));
    // Of equally slow stages it is the nearest to itself.
    measured.client = Some(mb(118.0));
    assert_eq!(judge(&measured).bottleneck, (Stage::Client, mb(118.0)));
    measured.client = Some(mb(900.0));
    let network = Stage::Network("nas".into());
    assert_eq!(judge(&measured).bottleneck, (network, mb(125.0)));
}

#[test]
fn the_stages_go_from_the_bucket_to_the_client() {
    let mut measured = home(118.0, None);
    measured.client = Some(mb(11.5));
    let expected = [
        (Stage::Origin("nas".into()), mb(118.0)),
        (Stage::Network("other".into()), mb(1.0e5)),
        (Stage::Disk("/ssd".into()), mb(500.0)),
        (Stage::Memory, mb(8000.0)),
        (Stage::Client, mb(11.5)),
    ];
    assert_eq!(super::super::stages(&measured), expected);
}

#[test]
fn the_round_trip_is_told_from_the_first_byte() {
    let said = judge(&home(50.0, None)).to_string();
    let expected = "takes 2.0 ms, of which the round trip on the network takes 1.0 ms.\n";
    assert!(said.contains(expected), "{said}");
}
