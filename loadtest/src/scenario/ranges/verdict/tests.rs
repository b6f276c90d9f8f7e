use http::HeaderMap;

use super::super::ask::Piece;
use super::*;

const OBJECT: Pattern = Pattern { seed: 9, len: 100 };

fn answer(status: u16, fields: &[(header::HeaderName, &str)], body: &[u8]) -> Answer {
    let mut headers: HeaderMap = fields
        .iter()
        .map(|(name, value)| (name.clone(), value.parse().unwrap()))
        .collect();
    headers.insert(
        header::CONTENT_LENGTH,
        body.len().to_string().parse().unwrap(),
    );
    let status = StatusCode::from_u16(status).unwrap();
    Answer {
        head: Head { status, headers },
        body: Bytes::copy_from_slice(body),
    }
}

fn multipart(parts: &[(u64, u64)]) -> Answer {
    let mut body = vec![];
    for (first, last) in parts {
        body.extend(format!("\r\n--x\r\nContent-Range: bytes {first}-{last}/100\r\n\r\n").bytes());
        body.extend(OBJECT.bytes(*first, (last + 1 - first) as usize));
    }
    body.extend(b"\r\n--x--\r\n");
    answer(
        206,
        &[(header::CONTENT_TYPE, "multipart/byteranges; boundary=x")],
        &body,
    )
}

#[test]
fn the_slice_is_right_and_its_neighbour_is_not() {
    let ask = Ask(vec![Piece::Bounded(10, 19)]);
    let fields = [(header::CONTENT_RANGE, "bytes 10-19/100")];
    assert!(check(&ask, OBJECT, &answer(206, &fields, &OBJECT.bytes(10, 10))).is_ok());
    assert!(check(&ask, OBJECT, &answer(206, &fields, &OBJECT.bytes(11, 10))).is_err());
    assert!(check(&ask, OBJECT, &answer(206, &fields, &OBJECT.bytes(10, 9))).is_err());
    let fields = [(header::CONTENT_RANGE, "bytes 11-20/100")];
    assert!(check(&ask, OBJECT, &answer(206, &fields, &OBJECT.bytes(11, 10))).is_err());
    assert!(check(&ask, OBJECT, &answer(200, &[], &OBJECT.all())).is_err());
}

#[test]
fn several_parts_must_cover_what_was_asked_and_no_more() {
    let ask = Ask(vec![
        Piece::Bounded(0, 9),
        Piece::Bounded(5, 14),
        Piece::Suffix(1),
    ]);
    assert!(check(&ask, OBJECT, &multipart(&[(0, 14), (99, 99)])).is_ok());
    assert!(check(&ask, OBJECT, &multipart(&[(0, 9), (5, 14), (99, 99)])).is_ok());
    assert!(check(&ask, OBJECT, &multipart(&[(0, 13), (99, 99)])).is_err());
    let ask = Ask(vec![Piece::Bounded(10, 11), Piece::Bounded(20, 21)]);
    assert!(check(&ask, OBJECT, &multipart(&[(9, 11), (20, 21)])).is_err());
}

#[test]
fn what_lies_outside_is_416_with_the_size() {
    let ask = Ask(vec![Piece::From(100)]);
    let fields = [(header::CONTENT_RANGE, "bytes */100")];
    assert!(check(&ask, OBJECT, &answer(416, &fields, b"")).is_ok());
    assert!(check(&ask, OBJECT, &answer(416, &[], b"")).is_err());
    assert!(
        check(
            &Ask(vec![Piece::From(99)]),
            OBJECT,
            &answer(416, &fields, b"")
        )
        .is_err()
    );
}
