use super::*;

#[test]
fn a_point_that_stands_alone_is_a_dot() {
    let drawn = |times: &[f64]| {
        let line = Line {
            name: "Requests",
            points: times.iter().map(|time| (*time, 1.0)).collect(),
            span: 100.0,
            end: 100.0,
            words: |value| format!("{value}"),
        };
        line.draw(15.0).into_string()
    };
    let one = "class=\"dot\" d=\"M600.0 6.0h0\"";
    assert!(drawn(&[100.0]).contains(one), "{}", drawn(&[100.0]));
    let two = "class=\"dot\" d=\"M0.0 6.0h0M600.0 6.0h0\"";
    let all = drawn(&[0.0, 40.0, 50.0, 100.0]);
    assert!(all.contains(two), "{all}");
    assert!(!drawn(&[40.0, 50.0]).contains("dot"));
}

#[test]
fn a_line_has_a_gap_where_nothing_was_measured() {
    let line = Line {
        name: "Requests",
        points: vec![(0.0, 1.0), (10.0, 2.0), (60.0, 1.0), (70.0, 0.5)],
        span: 100.0,
        end: 100.0,
        words: |value| format!("{value}"),
    };
    let drawn = line.draw(15.0).into_string();
    assert_eq!(drawn.matches("M0.0").count(), 2, "{drawn}");
    assert_eq!(
        drawn.matches('M').count(),
        4,
        "two pieces of line and area: {drawn}"
    );
    assert!(drawn.contains("last 0.5, at most 2"), "{drawn}");
    // From 1 of 2 to 2 of 2, and in the second piece from 1 to a half: 94 units are the highest value.
    let path = "d=\"M0.0 53.0l60 -47M360.0 53.0l60 23.5\"";
    assert!(drawn.contains(path), "{drawn}");
    assert!(!drawn.contains("style="), "the policy allows none");
}
