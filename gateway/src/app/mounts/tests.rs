use super::*;
use tidegate_config::parse;

#[test]
fn a_folder_that_no_mount_of_the_configuration_has_is_an_error() {
    let route = "[[origin]]\nname = \"a\"\nbucket = \"a\"\n";
    let mounted = "[[mount]]\npath = \"/mnt/media\"\nallow_other = true\n";
    let select = |text: &str, path: &str| {
        let loaded = parse("t.toml", text, &Environment::default()).expect("it is right");
        let args = MountArgs {
            path: path.into(),
            route: None,
            host: None,
            writable: false,
        };
        selected(&loaded.config, &args)
    };
    let both = format!("{route}{mounted}");
    assert!(
        select(&both, "/mnt/media")
            .expect("it is there")
            .allow_other
    );
    assert!(select(&both, "/mnt/media/").expect("the same").allow_other);
    let wrong = select(&both, "/mnt/medai").expect_err("no such mount");
    let said = "no [[mount]] of the configuration has the path /mnt/medai; those that there are have /mnt/media";
    assert_eq!(wrong.to_string(), said);
    let plain = select(route, "/mnt/medai").expect("none is configured");
    assert!(!plain.allow_other && !plain.writable);
}

#[test]
fn a_single_mount_takes_the_events_that_need_no_listener() {
    let text = "[[origin]]\nname = \"a\"\nbucket = \"a\"\n[[route]]\npath = \"/\"\norigin = \"a\"\n\
        [[events]]\nname = \"hook\"\norigin = \"a\"\ntoken = \"t0ken-of-the-tests\"\n\
        [[events]]\nname = \"nats\"\norigin = \"a\"\nkind = \"nats\"\nservers = [\"nats://127.0.0.1:4222\"]\n\
        subject = \"s\"\nstream = \"t\"\nconsumer = \"c\"\n";
    let loaded = parse("t.toml", text, &Environment::default()).expect("it is right");
    let taken = with_events_of_mount(&loaded.config).events;
    let expected = Events {
        stream: None,
        consumer: None,
        ..loaded.config.events[1].clone()
    };
    assert_eq!(taken, [expected]);
}
