//! IP addresses and networks.

use core::net::IpAddr;

/// A network: an address and the number of bits that count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Network {
    pub(super) address: IpAddr,
    pub(super) bits: u32,
}

impl std::fmt::Display for Network {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

/// No zone, and no IPv4 address in the clothes of IPv6.
pub(super) fn address(text: &str) -> Option<IpAddr> {
    let is_plain = |address: &IpAddr| match address {
        IpAddr::V4(_) => true,
        IpAddr::V6(address) => address.to_ipv4_mapped().is_none(),
    };
    text.parse().ok().filter(is_plain)
}

/// How many bits an address has.
fn width(address: IpAddr) -> u32 {
    if address.is_ipv4() { 32 } else { 128 }
}

impl Network {
    /// An address, `/`, and a number without needless zeros.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (address, bits) = text.split_once('/')?;
        let address = self::address(address)?;
        let is_plain = bits == "0" || (!bits.starts_with(['0', '+']) && !bits.is_empty());
        let bits = bits.parse().ok().filter(|bits| *bits <= width(address))?;
        is_plain.then_some(Self { address, bits })
    }

    /// The network with no bits set behind those that count.
    pub(super) fn masked(self) -> Self {
        let behind = width(self.address) - self.bits;
        let address = match self.address {
            IpAddr::V4(address) => {
                let mask = u32::MAX.checked_shl(behind).unwrap_or(0);
                IpAddr::V4((address.to_bits() & mask).into())
            }
            IpAddr::V6(address) => {
                let mask = u128::MAX.checked_shl(behind).unwrap_or(0);
                IpAddr::V6((address.to_bits() & mask).into())
            }
        };
        Self { address, ..self }
    }

    pub(super) fn contains(self, address: IpAddr) -> bool {
        address.is_ipv4() == self.address.is_ipv4()
            && Self { address, ..self }.masked() == self.masked()
    }

    pub(super) fn covers(self, other: Self) -> bool {
        self.bits <= other.bits && self.contains(other.address)
    }
}
