//! The configuration in force after a reload.

use tidegate_config::{Admin, Cache, Config, LiveKeys, Loaded, Log, State};

/// Returns what is in force after a reload. What needs a restart is still as it was, and is named again by the next reload.
pub(super) fn after(old: &Loaded, new: Loaded) -> Loaded {
    let live = LiveKeys::between(&old.config, &new.config);
    Loaded {
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
            memory: new.cache.memory,
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
