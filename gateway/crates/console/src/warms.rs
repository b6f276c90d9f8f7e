//! The orders of the page to fetch objects: how far each is.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use serde::Serialize;
use utoipa::ToSchema;

use tidegate_telemetry::locks::Recover as _;

/// Orders under way at once.
const MAX_UNDER_WAY: usize = 4;

/// Orders that are remembered, those under way among them.
const MAX_KEPT: usize = 8;

/// The last orders, the latest last.
#[derive(Debug, Default)]
pub(crate) struct Warms(Mutex<VecDeque<Arc<WarmOrder>>>);

/// An order to fetch objects.
#[derive(Debug)]
pub(crate) struct WarmOrder {
    path: String,
    began: f64,
    objects: u64,
    done: AtomicU64,
    failed: AtomicU64,
    fetched: AtomicU64,
    is_over: AtomicBool,
}

/// An order under way; dropped, also by a panic or at the end of the gateway, it is over.
#[derive(Debug)]
pub(crate) struct WarmGuard(Arc<WarmOrder>);

/// The state of an order to fetch objects.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct WarmState {
    /// The path of the object or the folder.
    pub path: String,
    /// The time of the order, in seconds since 1970.
    pub began: f64,
    /// The number of its objects.
    pub objects: u64,
    /// The objects that are cached now.
    pub done: u64,
    /// The objects that could not be fetched.
    pub failed: u64,
    /// The bytes that were fetched.
    pub fetched: u64,
    /// Whether it is over.
    pub is_over: bool,
}

impl Warms {
    /// Begins an order over so many objects; `None`: too many are under way.
    pub(crate) fn begin(&self, path: String, objects: u64, began: f64) -> Option<WarmGuard> {
        let mut kept = self.0.lock().recover();
        let is_over = |order: &Arc<WarmOrder>| order.is_over.load(Ordering::Relaxed);
        if kept.iter().filter(|order| !is_over(order)).count() >= MAX_UNDER_WAY {
            return None;
        }
        if kept.len() >= MAX_KEPT
            && let Some(oldest) = kept.iter().position(is_over)
        {
            kept.remove(oldest);
        }
        let order = Arc::new(WarmOrder {
            path,
            began,
            objects,
            done: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            fetched: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
        });
        kept.push_back(order.clone());
        Some(WarmGuard(order))
    }

    /// Returns the last orders, the latest first.
    pub(crate) fn list(&self) -> Vec<WarmState> {
        let kept = self.0.lock().recover();
        kept.iter().rev().map(|order| order.state()).collect()
    }
}

impl WarmOrder {
    fn state(&self) -> WarmState {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        WarmState {
            path: self.path.clone(),
            began: self.began,
            objects: self.objects,
            done: count(&self.done),
            failed: count(&self.failed),
            fetched: count(&self.fetched),
            is_over: self.is_over.load(Ordering::Relaxed),
        }
    }
}

impl WarmGuard {
    /// Adds fetched bytes.
    pub(crate) fn add(&self, bytes: u64) {
        self.0.fetched.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts an object.
    pub(crate) fn count(&self, is_cached: bool) {
        let counter = match is_cached {
            true => &self.0.done,
            false => &self.0.failed,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for WarmGuard {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_bounded_and_the_last_ones_are_remembered() {
        let warms = Warms::default();
        let begin = |path: &str| warms.begin(path.to_owned(), 2, 0.0);
        let first = begin("/0").expect("a place");
        let mut others: Vec<_> = (1..MAX_UNDER_WAY)
            .map(|n| begin(&format!("/{n}")).expect("a place"))
            .collect();
        assert!(begin("/more").is_none());
        first.add(7);
        first.count(true);
        first.count(false);
        others.clear();
        for n in 0..3 * MAX_KEPT {
            drop(begin(&format!("/again/{n}")).expect("a place"));
        }
        let list = warms.list();
        assert_eq!(list.len(), MAX_KEPT);
        let oldest = &list[MAX_KEPT - 1];
        assert_eq!((&*oldest.path, oldest.is_over), ("/0", false), "it goes on");
        assert_eq!((oldest.done, oldest.failed, oldest.fetched), (1, 1, 7));
        drop(first);
        assert!(warms.list().iter().all(|order| order.is_over));
    }
}
