//! The console's view of the gateway: the configuration in force, and the doctor.

use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures_core::future::BoxFuture;
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::app::events::fleet::{FleetLink, FleetMember};
use crate::app::reload::Reloader;
use crate::doctor::{self, DoctorOptions, Progress};
use crate::link;
use tidegate_admin::Admin;
use tidegate_admin::auth::Guesses;
use tidegate_config::{Config, ConsoleAccess, EventsKind, LoadedConfig, ValueLocation, is_live};
use tidegate_console::gateway::{
    ChangeNeeds, ConnectionRate, DoctorOrder, FleetPeer, HookInfo, LastEvent, Link, LinkRequest,
    OriginInfo, Overview, Prices, RouteInfo, Setting, SettingSource, StageRate, SubscriptionInfo,
    Suggestion, Verdict,
};
use tidegate_console::{Console, ConsoleParts, Gateway};
use tidegate_events::EventLog;
use tidegate_events::fleet::FleetGateway;
use tidegate_events::log::LoggedEvent;
use tidegate_plan::diagnosis::{self, Rate, Stage, stages};
use tidegate_plan::{ByteSize, Timestamp};

/// The time of one measurement, and the file on a disk: shorter and smaller than those of the command, because readers
/// are served meanwhile.
const MEASUREMENT_TIME: Duration = Duration::from_secs(2);
const SCRATCH: ByteSize = ByteSize(256 << 20);

/// Implements [`Gateway`] over the parts of a reload.
#[derive(Debug)]
struct ConsoleGateway {
    reloader: Arc<Reloader>,
    events: Arc<EventLog>,
    fleet: Option<Arc<FleetLink>>,
}

/// The last write of the history may take this long.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// The history of a console, which is kept until the gateway stops.
#[derive(Debug)]
pub(in crate::app) struct KeptHistory(Option<JoinHandle<()>>);

impl KeptHistory {
    /// Waits until the history is written, for at most 5 s, after the stop that it was begun with.
    pub(in crate::app) async fn written(self) {
        let Some(kept) = self.0 else { return };
        if timeout(STOP_TIMEOUT, kept).await.is_err() {
            tracing::warn!("the console's history was not written in time");
        }
    }
}

/// Returns the endpoints of the admin listener, with the console unless that is off. Its history is kept until `stop`.
pub(in crate::app) fn endpoints(
    admin: Admin,
    config: &Config,
    reloader: &Arc<Reloader>,
    (events, fleet): (&Arc<EventLog>, Option<&FleetMember>),
    stop: CancellationToken,
) -> (tidegate_admin::Endpoints, KeptHistory) {
    let guesses = Guesses::new();
    if config.admin.console == ConsoleAccess::Off {
        let endpoints = admin.router_with(guesses, Default::default());
        return (endpoints, KeptHistory(None));
    }
    let parts = ConsoleParts {
        admin,
        gateway: Arc::new(ConsoleGateway {
            reloader: reloader.clone(),
            events: events.clone(),
            fleet: fleet.map(FleetMember::link),
        }),
        state: config.state_path(),
        open_to_read: config.admin.console == ConsoleAccess::Read,
        stop,
    };
    let console = Console::new(parts, guesses);
    let kept = tokio::spawn(console.clone().run());
    (console.endpoints(), KeptHistory(Some(kept)))
}

impl Gateway for ConsoleGateway {
    fn overview(&self) -> Overview {
        overview(&self.reloader.loaded().config)
    }

    fn settings(&self) -> Vec<Setting> {
        self.reloader
            .loaded()
            .settings
            .iter()
            .map(setting)
            .collect()
    }

    fn last_events(&self) -> Vec<LastEvent> {
        self.events.latest().into_iter().map(last_event).collect()
    }

    fn fleet_peers(&self) -> Vec<FleetPeer> {
        let gateways = self.fleet.iter().flat_map(|fleet| fleet.gateways());
        let peer = |gateway: FleetGateway| FleetPeer {
            id: format!("{:016x}", gateway.id),
            name: gateway.name,
            heard: gateway.heard.as_secs_f64(),
        };
        gateways.map(peer).collect()
    }

    fn has_tls(&self) -> bool {
        self.reloader.admin_has_tls()
    }

    fn link(&self, wanted: LinkRequest) -> BoxFuture<'_, Result<Link, String>> {
        let reloader = self.reloader.clone();
        Box::pin(async move {
            // A key may lie in a file.
            let made = spawn_blocking(move || link(&reloader, &wanted)).await;
            let made = made.map_err(|_| "the link could not be made".to_owned())?;
            made.map_err(|error| format!("{error:#}"))
        })
    }

    fn examine(
        &self,
        order: DoctorOrder,
        progress: UnboundedSender<String>,
    ) -> BoxFuture<'_, Result<Verdict, String>> {
        Box::pin(async move {
            let options = DoctorOptions {
                objects: order.objects,
                host: order.host,
                client: order.client.map(Rate),
                time: MEASUREMENT_TIME,
                scratch: SCRATCH,
                ..DoctorOptions::default()
            };
            // A reload may come meanwhile: what is judged is what was measured.
            let (measured, origins) = self.reloader.measured().await;
            let mut progress = Progress::new(LineSender::new(progress));
            let report = doctor::run(&measured.config, &options, &origins, &mut progress).await;
            let report = report.map_err(|error| format!("{error:#}"))?;
            let suggestions = suggestions(&measured, &report);
            Ok(verdict(&measured.config, &report, suggestions))
        })
    }
}

fn link(reloader: &Reloader, wanted: &LinkRequest) -> anyhow::Result<Link> {
    let (loaded, env) = (reloader.loaded(), reloader.env());
    let target = (wanted.host.as_deref(), &*wanted.path);
    let now = Timestamp::from(SystemTime::now());
    let made = link::to_path(
        (&loaded.config, env),
        target,
        wanted.key.as_deref(),
        (now, wanted.life),
    )?;
    Ok(Link {
        url: made.url,
        expires: made
            .key
            .as_ref()
            .map(|_| now.plus(wanted.life).secs() as f64),
        key: made.key,
    })
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

/// Returns the keys that should have another value, but those that the environment sets: no override goes before it.
fn suggestions(loaded: &LoadedConfig, report: &doctor::Report) -> Vec<Suggestion> {
    let Some(recommended) = &report.diagnosis.settings else {
        return Vec::new();
    };
    let is_set = |key: &str| {
        let mut settings = loaded.settings.iter();
        let setting = settings.find(|setting| setting.key == key);
        setting.is_some_and(|one| matches!(one.source, Some(ValueLocation::Variable(_))))
    };
    let all = doctor::suggestions(&loaded.config, recommended).into_iter();
    all.filter(|one| !is_set(&one.key))
        .map(|one| Suggestion {
            key: one.key,
            value: one.value,
            present: one.present,
            why: one.why,
        })
        .collect()
}

fn verdict(config: &Config, report: &doctor::Report, suggestions: Vec<Suggestion>) -> Verdict {
    let measured = &report.measurements;
    let interface = |origin: &str| {
        let network = measured.network(origin);
        network.map_or("", |network| &network.interface)
    };
    let words = |stage: &Stage| match stage {
        Stage::Origin(name) => format!("bucket of {name}"),
        Stage::Network(name) => format!("network to {name} ({})", interface(name)),
        Stage::Disk(path) => format!("disk {path}"),
        Stage::Memory => "memory".to_owned(),
        Stage::Client => "client: the browser that measured itself".to_owned(),
    };
    let stages = stages(measured).into_iter();
    // A bucket that sent nothing has no rate.
    let stages = stages.filter(|(_, rate)| rate.0 > 0.0);
    let configured = config.origin.iter();
    let configured = configured.map(|origin| (origin.name.as_str(), origin.endpoint.as_deref()));
    let connections = measured.origins.iter().map(|origin| ConnectionRate {
        origin: origin.name.clone(),
        one: origin.single().0,
        best: origin.best().0,
        connections: origin.streams(),
    });
    Verdict {
        narrowest: words(&report.diagnosis.bottleneck.0),
        stages: stages
            .map(|(stage, rate)| StageRate {
                stage: words(&stage),
                rate: rate.0,
            })
            .collect(),
        buckets_rate: diagnosis::buckets(configured, &measured.origins).map(|rate| rate.0),
        connections: connections.collect(),
        not_measured: report.not_measured(),
        report: report.to_string(),
        suggestions,
    }
}

fn overview(config: &Config) -> Overview {
    let origins = config.origin.iter().map(|origin| OriginInfo {
        name: origin.name.clone(),
        bucket: origin.bucket.clone(),
        endpoint: origin.endpoint.clone(),
        prices: prices(origin),
    });
    let keys = |access: Option<&String>| {
        let access = access.and_then(|name| config.access.get(name));
        let signed = access.and_then(|access| access.signed.as_ref());
        signed.map_or_else(Vec::new, |signed| signed.keys.keys().cloned().collect())
    };
    let routes = config.routes().into_iter().map(|route| RouteInfo {
        keys: keys(route.access.as_ref()),
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

fn last_event(event: LoggedEvent) -> LastEvent {
    LastEvent {
        time: event.time.as_secs_f64(),
        source: event.source,
        kind: event.kind.name().to_owned(),
        key: event.key,
        result: event.result.name().to_owned(),
        lag: event.lag.map(|lag| lag.as_secs_f64()),
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
        name: setting.name.clone(),
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
