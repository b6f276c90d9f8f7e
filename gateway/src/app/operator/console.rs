//! The console's view of the gateway: the configuration in force, and the doctor.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures_core::future::BoxFuture;
use tokio::sync::mpsc::UnboundedSender;

use crate::app::reload::Reloader;
use crate::doctor::{self, DoctorOptions, Progress};
use tidegate_admin::Admin;
use tidegate_admin::auth::Guesses;
use tidegate_config::{Config, ConsoleAccess, EventsKind, ValueLocation, is_live};
use tidegate_console::gateway::{
    ChangeNeeds, HookInfo, OriginInfo, Overview, Prices, RouteInfo, Setting, SettingSource,
    StageRate, SubscriptionInfo, Verdict,
};
use tidegate_console::{Console, ConsoleParts, Gateway};
use tidegate_plan::ByteSize;
use tidegate_plan::diagnosis::Stage;

/// The time of one measurement, and the file on a disk: shorter and smaller than those of the command, because readers
/// are served meanwhile.
const MEASUREMENT_TIME: Duration = Duration::from_secs(2);
const SCRATCH: ByteSize = ByteSize(256 << 20);

/// Implements [`Gateway`] over the parts of a reload.
#[derive(Debug)]
struct ConsoleGateway(Arc<Reloader>);

/// Returns the endpoints of the admin listener, with the console unless that is off. Its history is kept until the
/// gateway drains.
pub(in crate::app) fn endpoints(
    admin: Admin,
    config: &Config,
    reloader: &Arc<Reloader>,
) -> tidegate_admin::Endpoints {
    let guesses = Guesses::new();
    if config.admin.console == ConsoleAccess::Off {
        return admin.router_with(guesses, Default::default());
    }
    let parts = ConsoleParts {
        admin: admin.clone(),
        gateway: Arc::new(ConsoleGateway(reloader.clone())),
        state: config.state_path(),
        open_to_read: config.admin.console == ConsoleAccess::Read,
    };
    let console = Console::new(parts, guesses.clone());
    tokio::spawn(console.clone().run(admin.draining.clone()));
    admin.router_with(guesses, console.router())
}

impl Gateway for ConsoleGateway {
    fn overview(&self) -> Overview {
        overview(&self.0.loaded().config)
    }

    fn settings(&self) -> Vec<Setting> {
        self.0.loaded().settings.iter().map(setting).collect()
    }

    fn has_tls(&self) -> bool {
        self.0.admin_has_tls()
    }

    fn examine(
        &self,
        objects: Vec<String>,
        progress: UnboundedSender<String>,
    ) -> BoxFuture<'_, Result<Verdict, String>> {
        Box::pin(async {
            let options = DoctorOptions {
                objects,
                time: MEASUREMENT_TIME,
                scratch: SCRATCH,
                ..DoctorOptions::default()
            };
            let (config, origins) = self.0.measured().await;
            let mut progress = Progress::new(LineSender::new(progress));
            let report = doctor::run(&config, &options, &origins, &mut progress).await;
            let report = report.map_err(|error| format!("{error:#}"))?;
            Ok(verdict(&report))
        })
    }
}

/// Sends what is written to it, line by line.
struct LineSender {
    to: UnboundedSender<String>,
    line: Vec<u8>,
}

impl LineSender {
    fn new(to: UnboundedSender<String>) -> Self {
        Self {
            to,
            line: Vec::new(),
        }
    }
}

impl io::Write for LineSender {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for byte in bytes {
            match byte {
                b'\n' => {
                    let line = String::from_utf8_lossy(&self.line).into_owned();
                    self.line.clear();
                    // A page that is gone reads no more.
                    let _ = self.to.send(line);
                }
                byte => self.line.push(*byte),
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn verdict(report: &doctor::Report) -> Verdict {
    let words = |stage: &Stage| match stage {
        Stage::Memory => "memory".to_owned(),
        Stage::Disk(path) => format!("disk {path}"),
        Stage::Origin(name) => format!("bucket of {name}"),
    };
    let measured = &report.measurements;
    let origins = measured.origins.iter().filter_map(|origin| {
        let best = origin
            .rates
            .iter()
            .map(|(_, rate)| rate.0)
            .fold(0.0, f64::max);
        let stage = Stage::Origin(origin.name.clone());
        (best > 0.0).then_some((stage, best))
    });
    let disks = measured
        .disks
        .iter()
        .map(|disk| (Stage::Disk(disk.path.clone()), disk.read.0));
    let memory = (Stage::Memory, measured.memory.0);
    let stages = origins.chain(disks).chain([memory]);
    Verdict {
        narrowest: words(&report.diagnosis.bottleneck.0),
        stages: stages
            .map(|(stage, rate)| StageRate {
                stage: words(&stage),
                rate,
            })
            .collect(),
        report: report.to_string(),
    }
}

fn overview(config: &Config) -> Overview {
    let origins = config.origin.iter().map(|origin| OriginInfo {
        name: origin.name.clone(),
        bucket: origin.bucket.clone(),
        endpoint: origin.endpoint.clone(),
        prices: prices(origin),
    });
    let routes = config.routes().into_iter().map(|route| RouteInfo {
        host: route.host,
        path: route.path,
        origin: route.origin,
        profile: route.profile,
        access: route.access,
    });
    let subscriptions = config.events.iter().map(|events| SubscriptionInfo {
        name: events.name.clone(),
        origin: events.origin.clone(),
        kind: match events.kind {
            EventsKind::Webhook => "webhook".to_owned(),
            EventsKind::Nats => "nats".to_owned(),
        },
    });
    let hooks = config.hook.iter().enumerate();
    let hooks = hooks.map(|(index, hook)| HookInfo {
        name: hook.name_at(index),
        origin: hook.origin.clone(),
        prefix: hook.prefix.clone(),
    });
    Overview {
        origins: origins.collect(),
        routes: routes.collect(),
        subscriptions: subscriptions.collect(),
        hooks: hooks.collect(),
        is_in_fleet: !config.fleet.nats.is_empty(),
    }
}

fn prices(origin: &tidegate_config::Origin) -> Option<Prices> {
    let prices = Prices {
        get: origin.price_get,
        put: origin.price_put,
        received: origin.price_received,
        sent: origin.price_sent,
    };
    let all = [prices.get, prices.put, prices.received, prices.sent];
    all.iter().any(|price| *price > 0.0).then_some(prices)
}

fn setting(setting: &tidegate_config::Setting) -> Setting {
    let (source, place) = match &setting.source {
        None => (SettingSource::Default, None),
        Some(ValueLocation::File { line, name, .. }) => {
            (SettingSource::File, Some(format!("{name}:{line}")))
        }
        Some(ValueLocation::Nowhere) => (SettingSource::File, None),
        Some(ValueLocation::Override(key)) => (SettingSource::Override, Some(key.clone())),
        Some(ValueLocation::Variable(name)) => (SettingSource::Environment, Some(name.clone())),
    };
    Setting {
        key: setting.key.clone(),
        help: setting.help.clone(),
        kind: setting.kind.clone(),
        choices: setting.choices.clone(),
        default: setting.default.clone(),
        value: setting.value.clone(),
        secret: setting.secret,
        source,
        place,
        needs: match is_live(&setting.key) {
            true => ChangeNeeds::Reload,
            false => ChangeNeeds::Restart,
        },
    }
}
