//! When a webhook certificate is made, renewed, and when a CA leaves the bundle that callers trust.
//!
//! Each certificate has a CA of its own whose key nobody keeps, so a renewal takes a further CA. No call may be refused
//! meanwhile, whenever the process ends:
//!
//! ```text
//! the CAs that callers trust      the certificate in the Secret
//! old                             old's         two thirds of its life are over: renewal begins
//! old, new                        old's         first the callers;  a crash here: begins again with a further CA
//! old, new                        new's         then the Secret, which Pods see some time later
//! new                             new's         ten minutes later
//! ```
//!
//! A CA leaves the bundle only when the Secret's certificate is no longer its own, and when nobody can serve, or be
//! about to write, one that is.

use jiff::{SignedDuration, Timestamp};

/// How long a certificate and its CA are valid.
pub const LIFE: SignedDuration = SignedDuration::from_hours(365 * 24);
/// How much earlier than it is made a certificate is valid from, for clocks that are behind ours.
pub const BACKDATED: SignedDuration = SignedDuration::from_hours(1);
/// How long after the Secret was written all Pods see it: the kubelet looks every minute or two.
pub const ARRIVES: SignedDuration = SignedDuration::from_mins(10);

/// The certificate that the Secret holds, and the other CAs in its bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// When it was made.
    pub issued: Timestamp,
    /// Until when it is valid.
    pub expires: Timestamp,
    /// The demand for a rotation that it was made for, if there was one.
    pub rotation: Option<String>,
    /// When each CA was made that is in the bundle beside its own.
    pub others: Vec<Timestamp>,
}

/// What the revision wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted<'a> {
    /// Somebody's demand for a rotation: each new text asks for one.
    pub rotation: Option<&'a str>,
    /// Whether a later revision of the extension rolls out, which will soon renew what it takes over.
    pub is_superseded: bool,
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// A CA and a certificate are made.
    Renewal,
    /// The other CAs leave the bundle.
    Removal,
    /// Nothing, until then.
    Nothing(Timestamp),
}

/// What is due at `now`; `held`: none when the Secret holds no certificate that a caller would accept.
pub fn due(held: Option<&Held>, wanted: Wanted<'_>, now: Timestamp) -> Due {
    let Some(held) = held else {
        return Due::Renewal;
    };
    let is_demanded = wanted.rotation.is_some() && wanted.rotation != held.rotation.as_deref();
    let renewal = held.renewal(wanted.is_superseded);
    if now >= renewal || is_demanded && !wanted.is_superseded {
        return Due::Renewal;
    }
    match held.removal() {
        Some(removal) if now >= removal => Due::Removal,
        Some(removal) => Due::Nothing(renewal.min(removal)),
        // The later revision may be given up.
        None if wanted.is_superseded => Due::Nothing(renewal.min(later(now, ARRIVES))),
        None => Due::Nothing(renewal),
    }
}

impl Held {
    /// At two thirds of its life; while a later revision rolls out as late as at nine tenths.
    fn renewal(&self, is_superseded: bool) -> Timestamp {
        let life = self.expires.duration_since(self.issued);
        let part = if is_superseded {
            life / 10 * 9
        } else {
            life / 3 * 2
        };
        later(self.issued, part)
    }

    /// When all other CAs may leave the bundle; none if there are none.
    fn removal(&self) -> Option<Timestamp> {
        let newest = self.others.iter().max()?;
        Some(later(self.issued.max(*newest), ARRIVES))
    }

    /// Whether a CA made at `issued` that is not the certificate's own stays in the bundle when a renewal begins at
    /// `now`. It leaves some time after it is of no use, so that renewals that fail again and again pile nothing up.
    pub fn keeps(&self, issued: Timestamp, now: Timestamp) -> bool {
        now < later(self.issued.max(issued), ARRIVES)
    }
}

fn later(time: Timestamp, by: SignedDuration) -> Timestamp {
    time.saturating_add(by).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Wanted<'_> = Wanted {
        rotation: None,
        is_superseded: false,
    };

    fn at(minutes: i64) -> Timestamp {
        Timestamp::from_second(1_000_000 + minutes * 60).unwrap()
    }

    /// Made at 0, valid for 90 minutes.
    fn held(others: &[i64]) -> Held {
        Held {
            issued: at(0),
            expires: at(90),
            rotation: None,
            others: others.iter().map(|minutes| at(*minutes)).collect(),
        }
    }

    #[test]
    fn what_is_due() {
        let demanded = Wanted {
            rotation: Some("a"),
            ..PLAIN
        };
        let superseded = Wanted {
            is_superseded: true,
            ..PLAIN
        };
        let both = Wanted {
            is_superseded: true,
            ..demanded
        };
        for (why, others, wanted, now, expected) in [
            ("it is new", &[][..], PLAIN, 0, Due::Nothing(at(60))),
            ("just before", &[], PLAIN, 59, Due::Nothing(at(60))),
            ("two thirds are over", &[], PLAIN, 60, Due::Renewal),
            ("it has expired", &[], PLAIN, 100, Due::Renewal),
            ("an old CA", &[-500], PLAIN, 5, Due::Nothing(at(10))),
            ("ten minutes later", &[-500], PLAIN, 10, Due::Removal),
            ("renewal goes first", &[-500], PLAIN, 60, Due::Renewal),
            ("a CA never used", &[40], PLAIN, 45, Due::Nothing(at(50))),
            ("the newest counts", &[40, -5], PLAIN, 50, Due::Removal),
            ("a demand", &[], demanded, 1, Due::Renewal),
            ("a rollout comes", &[], both, 1, Due::Nothing(at(11))),
            ("it lasts", &[], superseded, 75, Due::Nothing(at(81))),
            ("for too long", &[], superseded, 81, Due::Renewal),
        ] {
            let found = due(Some(&held(others)), wanted, at(now));
            assert_eq!(found, expected, "{why}");
        }
        assert_eq!(due(None, superseded, at(0)), Due::Renewal);
    }

    #[test]
    fn a_demand_is_met_once() {
        let wanted = |rotation| Wanted {
            rotation: Some(rotation),
            is_superseded: false,
        };
        let held = Held {
            rotation: Some("a".to_owned()),
            ..held(&[])
        };
        assert_eq!(due(Some(&held), wanted("a"), at(1)), Due::Nothing(at(60)));
        assert_eq!(due(Some(&held), wanted("b"), at(1)), Due::Renewal);
        // That the demand is taken back asks for nothing.
        assert_eq!(due(Some(&held), PLAIN, at(1)), Due::Nothing(at(60)));
    }

    #[test]
    fn renewals_that_fail_pile_nothing_up() {
        let held = held(&[]);
        // The last renewal that failed may still be on its way.
        assert!(held.keeps(at(60), at(65)));
        assert!(!held.keeps(at(60), at(70)));
        // Pods may still serve what the Secret held before.
        assert!(held.keeps(at(-500), at(9)));
        assert!(!held.keeps(at(-500), at(10)));
    }
}
