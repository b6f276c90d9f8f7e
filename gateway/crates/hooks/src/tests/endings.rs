//! The end of hooks: a stop, and a reload that keeps, changes or drops them.

use super::*;

/// Returns whether a metric names this hook.
fn shows(hooks: &Hooks, hook: &str) -> bool {
    metrics(hooks).contains(&format!("{hook:?}"))
}

#[tokio::test(start_paused = true)]
async fn a_stop_sends_what_waits_once() {
    let receiver = Receiver::new(&[FAILED], OK);
    let hooks = hooks(&receiver, vec![settings("h")]);
    hooks.changed("media", &created("a"));
    hooks.changed("media", &created("b"));
    let begun = Instant::now();
    hooks.stop(5 * SECOND).await;
    assert!(begun.elapsed() < SECOND);
    assert_eq!(receiver.paths(), ["/a", "/b"]);
}

#[tokio::test(start_paused = true)]
async fn a_stop_ends_a_pause_and_waits_for_no_silent_receiver() {
    let receiver = Receiver::new(&[FAILED], Outcome::Timeout);
    let mut hook = settings("h");
    hook.debounce = Duration::from_millis(1);
    let hooks = hooks(&receiver, vec![hook]);
    hooks.changed("media", &created("a"));
    hooks.changed("media", &created("b"));
    sleep(Duration::from_millis(100)).await;
    let begun = Instant::now();
    hooks.stop(5 * SECOND).await;
    assert_eq!(begun.elapsed().as_secs(), 5);
    assert_eq!(receiver.paths(), ["/a", "/a"]);
    assert_eq!(metric(&hooks, &["dropped", "stopped"]), 2);
}

#[tokio::test(start_paused = true)]
async fn hooks_that_stay_keep_what_waits_and_others_drop_it() {
    let (before, after) = (Receiver::new(&[], OK), Receiver::new(&[], OK));
    let hooks = hooks(&before, vec![settings("stays"), settings("goes")]);
    hooks.changed("media", &created("a"));
    sleep(SECOND).await;
    let mut stays = settings("stays");
    stays.url = Template::parse("http://r/new/{key}").expect("a template");
    stays.debounce = 3 * SECOND;
    hooks.replace(prepared(&after, vec![settings("comes"), stays]));
    sleep(LONG).await;
    assert!(shows(&hooks, "stays") && !shows(&hooks, "goes"));
    assert!(before.seen().is_empty(), "{:?}", before.seen());
    assert_eq!(after.seen(), [(3, "/new/a".to_owned())], "by its new time");
    hooks.changed("media", &created("b"));
    sleep(LONG).await;
    assert_eq!(after.paths()[1..], ["/new/b", "/b"]);
    hooks.replace(prepared(&after, Vec::new()));
    assert!(hooks.is_empty());
    hooks.changed("media", &created("c"));
    sleep(LONG).await;
    assert_eq!(after.paths().len(), 3);
    assert!(!["stays", "comes"].iter().any(|hook| shows(&hooks, hook)));
}

#[tokio::test(start_paused = true)]
async fn a_call_under_way_ends_with_its_hook_and_goes_on_with_the_new_settings() {
    let silent = Receiver::new(&[], Outcome::Timeout);
    let hooks = hooks(&silent, vec![settings("stays"), settings("goes")]);
    hooks.changed("media", &created("a"));
    sleep(6 * SECOND).await;
    assert_eq!(silent.paths(), ["/a", "/a"], "both are calling");
    let heard = Receiver::new(&[], OK);
    hooks.replace(prepared(&heard, vec![settings("stays")]));
    sleep(LONG).await;
    assert!(!shows(&hooks, "goes"));
    assert_eq!(silent.paths().len(), 2, "the next try has the new settings");
    assert_eq!(heard.paths(), ["/a"]);
}
