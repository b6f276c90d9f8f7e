use super::*;

use tokio::sync::oneshot;

#[test]
fn an_event_has_data_whatever_its_text() {
    assert_eq!(event(Section::Doctor, ""), "data: \n\n");
    assert_eq!(
        event(Section::Streams, "<p>a\rb\n</p>"),
        "data: <p>a\ndata: b\ndata: </p>\n\n"
    );
    assert_eq!(event(Section::Charts, "x"), "event: charts\ndata: x\n\n");
}

#[tokio::test]
async fn a_task_that_has_panicked_is_begun_anew() {
    let mut task = RenderTask::default();
    task.begin(async { panic!("of a page") });
    let first = task.0.as_mut().expect("begun");
    assert!(first.await.expect_err("it has panicked").is_panic());
    let (told, tell) = oneshot::channel();
    task.begin(async { told.send(()).expect("the test waits") });
    let second = task.0.as_ref().map(JoinHandle::id);
    task.begin(async {});
    assert_eq!(task.0.as_ref().map(JoinHandle::id), second, "it runs");
    tell.await.expect("the second one renders");
}

#[test]
fn each_section_has_its_own_place() {
    let live = LiveFeed::default();
    for (nth, section) in ALL.into_iter().enumerate() {
        assert_eq!(section as usize, nth);
        live.publish(section, section.name().to_owned());
    }
    let sent: Vec<_> = live
        .sections
        .iter()
        .map(|one| one.borrow().clone())
        .collect();
    assert_eq!(sent, ALL.map(Section::name));
}
