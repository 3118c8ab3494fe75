//! Waiting for somebody else's lease to be free, with hardly a request: a watch tells each renewal, so that who waits knows
//! when there was none for too long.
//!
//! Before anything is taken the lease is read, so a watch that has fallen silent costs time, never the only leader.

#![expect(clippy::disallowed_types, reason = "the lease lives in the API server")]

use std::time::Duration;

use futures::{Stream, StreamExt as _};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::Api;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event, watcher};
use tokio::time::Instant;

use super::Seen;
use crate::api::keys;

/// When to ask for the lease again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// When it is released, or has not changed for too long.
    WhenFree,
    /// The last attempt failed.
    Soon,
}

/// What is known of the lease without asking.
pub(super) enum News {
    /// This is its record.
    Record(LeaseSpec),
    /// There is no lease.
    None,
    /// Nothing: the watch is interrupted, or not allowed.
    Unknown,
}

/// Tells whatever becomes of the lease.
pub(super) fn news(api: Api<Lease>) -> impl Stream<Item = News> {
    let config = watcher::Config::default().fields(&format!("metadata.name={}", keys::LEASE_NAME));
    let events = watcher(api, config).default_backoff();
    events
        .scan(false, |is_listed, event| {
            let news = match event {
                Ok(Event::Init) => {
                    *is_listed = false;
                    None
                }
                Ok(Event::InitApply(lease)) => {
                    *is_listed = true;
                    Some(News::Record(lease.spec.unwrap_or_default()))
                }
                Ok(Event::InitDone) => (!*is_listed).then_some(News::None),
                Ok(Event::Apply(lease)) => Some(News::Record(lease.spec.unwrap_or_default())),
                Ok(Event::Delete(_)) => Some(News::None),
                Err(_) => Some(News::Unknown),
            };
            std::future::ready(Some(news))
        })
        .filter_map(std::future::ready)
}

/// Waits until an attempt to take the lease may succeed.
pub(super) async fn until_worth_asking(
    news: &mut (impl Stream<Item = News> + Unpin),
    seen: &mut Seen,
    next: Next,
    retry: Duration,
) {
    let soon = Instant::now() + retry;
    loop {
        let may_wait = seen.is_watched && next == Next::WhenFree;
        let until = seen.expires().filter(|_| may_wait).unwrap_or(soon);
        tokio::select! {
            () = tokio::time::sleep_until(until) => return,
            Some(news) = news.next() => match news {
                News::Record(spec) => {
                    seen.is_watched = true;
                    if spec.holder_identity.as_deref().unwrap_or_default().is_empty() {
                        return;
                    }
                    seen.unchanged_for(&spec, Instant::now());
                }
                News::None => return,
                News::Unknown => seen.is_watched = false,
            }
        }
    }
}
