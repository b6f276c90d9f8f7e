use super::*;

fn stream(id: u64) -> Stream {
    Stream {
        id,
        kind: "http".to_owned(),
        client: "192.0.2.1".to_owned(),
        origin: None,
        key: format!("film {id}"),
        size: 100,
        position: 10,
        taken: 10,
        rate: 1.0,
        window: 0,
        ahead: 0,
        in_flight: 0,
        tier: "origin".to_owned(),
        stalls: 0,
        waiting: false,
        age: 1.0,
    }
}

#[test]
fn of_many_streams_those_that_wait_are_shown() {
    let mut all: Vec<_> = (0..2000).map(stream).collect();
    for id in (1500..2000).step_by(100) {
        all[id].waiting = true;
    }
    all[1999].stalls = 3;
    let shown: Vec<_> = shown(all).iter().map(|one| one.id).collect();
    assert_eq!(shown.len(), MAX_SHOWN);
    assert_eq!(shown[..194], (0..194).collect::<Vec<_>>());
    assert_eq!(shown[194..], [1500, 1600, 1700, 1800, 1900, 1999]);
}

#[test]
fn each_row_has_the_id_of_its_stream() {
    let row = row(&stream(17)).into_string();
    assert!(row.starts_with("<tr id=\"stream-17\">"), "{row}");
}
