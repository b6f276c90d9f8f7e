//! Subscriptions to the events of buckets.

use super::{MEDIA, tell_behind_media};
use tidegate_config::{Environment, EventsKind, parse};
use tidegate_plan::Period;

#[test]
fn a_subscription_has_a_name_an_origin_and_a_way_in() {
    tell_behind_media(&[
        (
            "[[events]]\nname = \"Bucket\"\norigin = \"medja\"\n",
            &[
                "t.toml:4:1: `events[0]`: admits no message: it needs `token`, or `topics` of SNS",
                "t.toml:5:8: `events[0].name`: may have lower-case letters, digits, `-` and `_`, and needs one of them",
                "t.toml:6:10: `events[0].origin`: there is no origin `medja`; did you mean `media`?",
            ],
        ),
        (
            "[[events]]\nname = \"a\"\norigin = \"media\"\ntoken = \"0123456789abcdef\"\n\
             [[events]]\nname = \"a\"\norigin = \"media\"\ntopics = [\"arn:aws:sqs:eu-west-1:1:x\"]\n\
             heartbeat = { prefix = \".t/\", every = \"1ms\" }\n",
            &[
                "t.toml:9:8: `events[1].name`: `a` is already the name of `events[0]`",
                "t.toml:11:11: `events[1].topics[0]`: `arn:aws:sqs:eu-west-1:1:x` is no ARN of a topic, such as arn:aws:sns:eu-west-1:123456789012:media",
                "t.toml:12:39: `events[1].heartbeat.every`: must be from 1s to 1h",
            ],
        ),
    ]);
}

#[test]
fn nats_needs_servers_a_subject_and_one_kind_of_credentials() {
    tell_behind_media(&[
        (
            "[[events]]\nname = \"a\"\norigin = \"media\"\nkind = \"nats\"\nuser = \"u\"\ntoken = \"t\"\n",
            &[
                "t.toml:4:1: `events[0]`: `nats` needs `servers`",
                "t.toml:4:1: `events[0]`: `nats` needs `subject`",
                "t.toml:4:1: `events[0]`: `user` and `password` go together",
                "t.toml:9:9: `events[0].token`: stands beside `user`; one of them is enough",
            ],
        ),
        (
            "[[events]]\nname = \"a\"\norigin = \"media\"\nkind = \"nats\"\nsubject = \"a.>\"\nstream = \"a.b\"\n\
             servers = [\"nats://u:p4ss@h:4222\", \"h:4222\", \"nats://h:4222\"]\n",
            &[
                "t.toml:8:11: `events[0].subject`: `a.>` is no name of NATS without wildcards",
                "t.toml:9:10: `events[0].stream`: `a.b` is no name of NATS without wildcards",
                "t.toml:10:12: `events[0].servers[0]`: must be nats://host:port or tls://host:port; credentials are keys of their own",
                "t.toml:10:36: `events[0].servers[1]`: must be nats://host:port or tls://host:port; credentials are keys of their own",
            ],
        ),
    ]);
}

#[test]
fn keys_of_the_other_kind_are_warned_of() {
    let text = format!(
        "{MEDIA}[[events]]\nname = \"a\"\norigin = \"media\"\ntoken = {{ env = \"T\" }}\nsubject = \"s\"\n\
         heartbeat = {{ prefix = \".t/\" }}\n"
    );
    let loaded = parse("t.toml", &text, &Environment::default()).expect("it is right");
    let warnings: Vec<_> = loaded.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        warnings,
        ["t.toml:8:11: `events[0].subject`: does nothing with `kind = \"webhook\"`"]
    );
    let [events] = &loaded.config.events[..] else {
        panic!("one subscription")
    };
    let heartbeat = events.heartbeat.as_ref().expect("a heartbeat");
    assert_eq!(
        (events.kind, heartbeat.every),
        (EventsKind::Webhook, Period::secs(10))
    );
}
