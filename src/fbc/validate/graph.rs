//! The upgrade graph of one channel.

use std::collections::{BTreeMap, BTreeSet};

use crate::fbc::package::ChannelEntry;

/// What is wrong with the graph, if anything: one head, from which the chain of `replaces` reaches every entry that no
/// other one skips, without a circle. The last one of the chain may replace what the catalog does not have.
pub(in crate::fbc) fn problem(entries: &[ChannelEntry]) -> Option<String> {
    if entries.is_empty() {
        return Some("the channel has no entries".to_owned());
    }
    let incoming: BTreeSet<&str> = entries
        .iter()
        .flat_map(|entry| {
            let replaces = Some(entry.replaces.as_str()).filter(|name| !name.is_empty());
            replaces
                .into_iter()
                .chain(entry.skips.iter().map(String::as_str))
        })
        .collect();
    let all: BTreeSet<&str> = entries.iter().map(|entry| entry.name.as_str()).collect();
    let heads: Vec<&str> = all.difference(&incoming).copied().collect();
    let head = match heads.as_slice() {
        [] => return Some("the channel has no head: each entry is replaced or skipped".to_owned()),
        [head] => *head,
        several => {
            return Some(format!(
                "the channel has several heads, which no entry replaces or skips: {}",
                several.join(", ")
            ));
        }
    };
    chain_problem(entries, &all, head)
}

fn chain_problem(entries: &[ChannelEntry], all: &BTreeSet<&str>, head: &str) -> Option<String> {
    // Of entries equal in name the last one counts; that there are two is another finding.
    let by_name: BTreeMap<&str, &ChannelEntry> = entries
        .iter()
        .map(|entry| (entry.name.as_str(), entry))
        .collect();
    let skipped: BTreeSet<&str> = entries
        .iter()
        .flat_map(|entry| entry.skips.iter().map(String::as_str))
        .collect();
    let mut chain = vec![head];
    let mut reached = BTreeSet::from([head]);
    let mut current = by_name.get(head);
    while let Some(entry) = current {
        let next = entry.replaces.as_str();
        if skipped.contains(next) {
            break;
        }
        let is_known = !reached.insert(next);
        chain.push(next);
        if is_known {
            let start = chain
                .iter()
                .position(|name| *name == next)
                .unwrap_or_default();
            let circle = chain.get(start..).unwrap_or_default().join(" -> ");
            return Some(format!("the chain of replaces runs in a circle: {circle}"));
        }
        current = by_name.get(next);
    }
    let stranded: Vec<&str> = all
        .iter()
        .filter(|name| !reached.contains(*name) && !skipped.contains(*name))
        .copied()
        .collect();
    (!stranded.is_empty()).then(|| {
        format!(
            "the chain of replaces from head {head} does not reach: {}",
            stranded.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `name<replaced,skipped,skipped`
    fn check(entries: &[&str], expected: Option<&str>) {
        let entries: Vec<ChannelEntry> = entries
            .iter()
            .map(|text| {
                let (name, edges) = text.split_once('<').unwrap_or((text, ""));
                let mut edges = edges.split(',');
                ChannelEntry {
                    name: name.to_owned(),
                    replaces: edges.next().unwrap_or_default().to_owned(),
                    skips: edges.map(str::to_owned).collect(),
                    skip_range: String::new(),
                }
            })
            .collect();
        assert_eq!(problem(&entries).as_deref(), expected, "{entries:?}");
    }

    #[test]
    fn graphs_have_one_head_and_no_strays() {
        check(&["a"], None);
        check(&["b<a", "a"], None);
        check(&["b<a", "a<not-here"], None);
        check(&["c<b,x", "b<a", "a", "x"], None);
        check(&["c<b", "b<a,a", "a<z"], None);
        check(&[], Some("the channel has no entries"));
        check(
            &["a<b", "b<a"],
            Some("the channel has no head: each entry is replaced or skipped"),
        );
        check(
            &["a<a"],
            Some("the channel has no head: each entry is replaced or skipped"),
        );
        check(
            &["c<a", "b<a", "a"],
            Some("the channel has several heads, which no entry replaces or skips: b, c"),
        );
        check(
            &["d<c", "c<b", "b<c"],
            Some("the chain of replaces runs in a circle: c -> b -> c"),
        );
        check(
            &["c<b", "b<", "a<z", "z<a"],
            Some("the chain of replaces from head c does not reach: a, z"),
        );
        // What is replaced is skipped, too: the chain ends there.
        check(
            &["c<b,b", "b<a", "a"],
            Some("the chain of replaces from head c does not reach: a"),
        );
    }
}
