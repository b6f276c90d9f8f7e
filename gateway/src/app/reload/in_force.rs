//! The configuration in force after a reload.

use tidegate_config::{Admin, Cache, Config, LiveKeys, LoadedConfig, Log, State};

/// Returns what is in force after a reload that has applied these keys. The others are still as they were, and are named
/// again by the next reload.
pub(super) fn after(old: &LoadedConfig, new: LoadedConfig, live: LiveKeys) -> LoadedConfig {
    LoadedConfig {
        written: old.written.with_live(&new.written, |key| live.has(key)),
        config: config(&old.config, &new.config, live),
        ..new
    }
}

fn config(old: &Config, new: &Config, live: LiveKeys) -> Config {
    let new = new.clone();
    let state_path = match live.state_stays {
        true => new.state.path,
        false => old.state.path.clone(),
    };
    Config {
        http: new.http,
        origin: new.origin,
        cache: Cache {
            memory: match live.memory {
                true => new.cache.memory,
                false => old.cache.memory,
            },
            budget: new.cache.budget,
            disk: match live.disks {
                true => new.cache.disk,
                false => old.cache.disk.clone(),
            },
            ..old.cache.clone()
        },
        state: State {
            path: state_path,
            ..old.state.clone()
        },
        route: new.route,
        profile: new.profile,
        access: new.access,
        limits: new.limits,
        hook: new.hook,
        events: new.events,
        log: Log {
            format: old.log.format,
            ..new.log
        },
        tls: new.tls,
        admin: Admin {
            listen: new.admin.listen,
            token: new.admin.token,
            ..old.admin.clone()
        },
        ..old.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_config::{Environment, parse};

    #[test]
    fn tiers_that_were_not_changed_are_named_again_by_the_next_reload() {
        let loaded = |memory: &str, disk: &str| {
            let text = format!(
                "[state]\npath = \"/state\"\n[cache]\nmemory = \"{memory}\"\n\
                 [[cache.disk]]\npath = \"/{disk}\"\ncapacity = \"1GiB\"\n\
                 [[origin]]\nname = \"a\"\nbucket = \"a\"\n[[route]]\npath = \"/\"\norigin = \"a\"\n"
            );
            parse("t.toml", &text, &Environment::default()).expect("it is right")
        };
        let (old, new) = (loaded("64MiB", "one"), loaded("128MiB", "two"));
        let all = LiveKeys::between(&old.config, &new.config);
        for (memory, disks) in [(true, true), (false, true), (false, false)] {
            let live = LiveKeys {
                memory,
                disks,
                ..all
            };
            let present = after(&old, new.clone(), live);
            let named: Vec<_> = present.written.changed(&new.written).collect();
            assert_eq!(named.contains(&"cache.memory"), !memory, "{named:?}");
            assert_eq!(named.contains(&"cache.disk[0].path"), !disks, "{named:?}");
            assert_eq!(
                present.config.cache.memory == new.config.cache.memory,
                memory
            );
            assert_eq!(present.config.cache.disk == new.config.cache.disk, disks);
        }
    }
}
