//! Requests that fail by chance, and connections that are cut.

#![expect(
    clippy::disallowed_types,
    reason = "the fake hands out a client that talks to it"
)]

use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Method, Request};
use kube::Client;
use tower::service_fn;

use super::ApiServer;
use super::chance::{Disturbance, Faults};
use super::objects::State;

impl State {
    /// What becomes of the next request, if it fails. Lists and watches do not: they begin again after a while of real
    /// time, for which no test waits.
    pub(super) fn disturbance(&mut self, line: &str) -> Option<Disturbance> {
        let faults = self.faults.as_mut()?;
        if line.starts_with("LIST") || line.starts_with("WATCH") {
            return None;
        }
        (faults.below(100) < faults.percent).then(|| match faults.below(2) {
            0 => Disturbance::NotDone,
            _ => Disturbance::AnswerLost,
        })
    }
}

/// A connection that can be cut: requests over it wait until it is whole again.
#[derive(Clone, Default)]
pub(crate) struct Wire {
    is_cut: Arc<AtomicBool>,
    cut_by: Arc<Mutex<Option<Method>>>,
}

impl Wire {
    pub(crate) fn cut(&self) {
        self.is_cut.store(true, Ordering::Relaxed);
    }

    /// Cuts the wire when the next request of this method is done and its answer is on its way.
    pub(crate) fn cut_by(&self, method: Method) {
        *self.cut_by.lock().unwrap() = Some(method);
    }

    pub(crate) fn mend(&self) {
        self.is_cut.store(false, Ordering::Relaxed);
    }

    fn done(&self, method: &Method) {
        let mut cut_by = self.cut_by.lock().unwrap();
        if cut_by.as_ref() == Some(method) {
            *cut_by = None;
            self.cut();
        }
    }

    async fn whole(&self) {
        while self.is_cut.load(Ordering::Relaxed) {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

impl ApiServer {
    /// From now on, `percent` of all requests but lists fail; half of those are done all the same.
    pub(crate) fn fail_often(&self, seed: u64, percent: u64) {
        let state = seed
            .wrapping_mul(0x9E37_79B9_7F4A_7C15)
            .wrapping_add(0x2545_F491_4F6C_DD1D);
        self.state().faults = Some(Faults { state, percent });
    }

    /// From now on, what can be done is done.
    pub(crate) fn fail_no_more(&self) {
        self.state().faults = None;
    }

    /// Ends every watch, as an API server that goes does.
    pub(crate) fn end_watches(&self) {
        self.state().watches.clear();
    }

    /// Sets the server's clock: so many seconds ahead of ours.
    pub(crate) fn set_clock(&self, seconds_ahead: i64) {
        self.state().seconds_ahead = seconds_ahead;
    }

    /// A client whose requests, and the answers to them, go over a wire that can be cut.
    pub(crate) fn client_over(&self, wire: &Wire) -> Client {
        let (server, wire) = (self.clone(), wire.clone());
        let service = service_fn(move |request: Request<kube::client::Body>| {
            let (server, wire) = (server.clone(), wire.clone());
            async move {
                wire.whole().await;
                let method = request.method().clone();
                let answer = server.answer(request).await;
                wire.done(&method);
                wire.whole().await;
                Ok::<_, Infallible>(answer)
            }
        });
        Client::new(service, "default")
    }
}
