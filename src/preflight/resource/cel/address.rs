//! URLs, IP addresses and networks in rules: `url(self).getHost()`, `cidr('10.0.0.0/8').containsIP(self.ip)`.
//!
//! After `apiserver/pkg/cel/library/{urls,ip,cidr}.go`.

use core::net::IpAddr;
use std::rc::Rc;

use super::function::{Called, Signature};
use super::network::{self, Network};
use super::value::{Cel, Failure};
use crate::preflight::resource::format::Uri;

pub(super) const FUNCTIONS: &[Signature] = &[
    ("isURL", false, &[1]),
    ("url", false, &[1]),
    ("getScheme", true, &[0]),
    ("getHost", true, &[0]),
    ("getHostname", true, &[0]),
    ("getPort", true, &[0]),
    ("getEscapedPath", true, &[0]),
    ("getQuery", true, &[0]),
    ("isIP", false, &[1]),
    ("ip", false, &[1]),
    ("ip.isCanonical", false, &[1]),
    ("family", true, &[0]),
    ("isUnspecified", true, &[0]),
    ("isLoopback", true, &[0]),
    ("isLinkLocalMulticast", true, &[0]),
    ("isLinkLocalUnicast", true, &[0]),
    ("isGlobalUnicast", true, &[0]),
    ("isCIDR", false, &[1]),
    ("cidr", false, &[1]),
    ("ip", true, &[0]),
    ("containsIP", true, &[1]),
    ("containsCIDR", true, &[1]),
    ("masked", true, &[0]),
    ("prefixLength", true, &[0]),
];

/// Calls a function of this library, whose value comes first.
pub(super) fn call<'v>(function: &str, all: &[Cel<'v>]) -> Called<'v> {
    match all {
        [Cel::Text(text)] => of_text(function, text),
        [Cel::Url(uri)] => of_url(function, uri),
        [Cel::Ip(address)] => of_ip(function, *address),
        [Cel::Network(network), rest @ ..] => of_network(function, *network, rest),
        _ => Err(Failure::overload()),
    }
}

fn of_text<'v>(function: &str, text: &str) -> Called<'v> {
    match function {
        "isURL" => Ok(Cel::Bool(Uri::parse(text).is_some())),
        "url" => match Uri::parse(text) {
            Some(uri) => Ok(Cel::Url(Rc::new(uri))),
            None => Err(Failure::of("URL parse error during conversion from string")),
        },
        "isIP" => Ok(Cel::Bool(ip(text).is_ok())),
        "ip" => ip(text).map(Cel::Ip),
        "ip.isCanonical" => Ok(Cel::Bool(ip(text)?.to_string() == text)),
        "isCIDR" => Ok(Cel::Bool(network(text).is_ok())),
        "cidr" => network(text).map(Cel::Network),
        _ => Err(Failure::overload()),
    }
}

fn ip(text: &str) -> Result<IpAddr, Failure> {
    let failed = || Failure::of("IP address parse error during conversion from string");
    network::address(text).ok_or_else(failed)
}

fn network(text: &str) -> Result<Network, Failure> {
    let failed = || Failure::of("network address parse error during conversion from string");
    Network::parse(text).ok_or_else(failed)
}

fn of_url<'v>(function: &str, uri: &Uri) -> Called<'v> {
    Ok(Cel::text(match function {
        "getScheme" => uri.scheme.as_str(),
        "getHost" => &uri.host,
        "getHostname" => uri.hostname(),
        "getPort" => uri.port(),
        "getEscapedPath" => &uri.path,
        "getQuery" => {
            let texts = |values: Vec<String>| values.into_iter().map(Cel::text).collect();
            let query = uri.query().into_iter();
            let query = query.map(|(key, values)| (Cel::text(key), Cel::list(texts(values))));
            return Ok(Cel::Map(Rc::new(query.collect())));
        }
        _ => return Err(Failure::overload()),
    }))
}

fn of_ip<'v>(function: &str, address: IpAddr) -> Called<'v> {
    Ok(Cel::Bool(match function {
        "family" => return Ok(Cel::Int(if address.is_ipv4() { 4 } else { 6 })),
        "isUnspecified" => address.is_unspecified(),
        "isLoopback" => address.is_loopback(),
        "isLinkLocalMulticast" => match address {
            IpAddr::V4(address) => matches!(address.octets(), [224, 0, 0, _]),
            IpAddr::V6(address) => address.segments()[0] & 0xff0f == 0xff02,
        },
        "isLinkLocalUnicast" => is_link_local(address),
        "isGlobalUnicast" => {
            let is_broadcast = matches!(address, IpAddr::V4(address) if address.is_broadcast());
            !(address.is_unspecified()
                || is_broadcast
                || address.is_loopback()
                || address.is_multicast()
                || is_link_local(address))
        }
        _ => return Err(Failure::overload()),
    }))
}

fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}

fn of_network<'v>(function: &str, own: Network, arguments: &[Cel<'v>]) -> Called<'v> {
    match (function, arguments) {
        ("ip", []) => Ok(Cel::Ip(own.address)),
        ("prefixLength", []) => Ok(Cel::Int(own.bits.into())),
        ("masked", []) => Ok(Cel::Network(own.masked())),
        ("containsIP", [Cel::Ip(other)]) => Ok(Cel::Bool(own.contains(*other))),
        ("containsIP", [Cel::Text(other)]) => Ok(Cel::Bool(own.contains(ip(other)?))),
        ("containsCIDR", [Cel::Network(other)]) => Ok(Cel::Bool(own.covers(*other))),
        ("containsCIDR", [Cel::Text(other)]) => Ok(Cel::Bool(own.covers(network(other)?))),
        _ => Err(Failure::overload()),
    }
}
