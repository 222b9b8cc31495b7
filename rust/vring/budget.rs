// SPDX-License-Identifier: GPL-2.0

//! How much one handler may do in one go.

/// Counts down packets and bytes, so that one busy queue cannot starve the others.
///
/// C twin: `vhost_exceeds_weight()`.
///
/// # Examples
///
/// ```
/// use vring::Budget;
///
/// let mut budget = Budget::new(2, 1000);
/// assert!(!budget.spend(60));
/// assert!(budget.spend(60));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    max_pkts: u32,
    max_bytes: u64,
    pkts: u32,
    bytes: u64,
}

impl Budget {
    /// The packets that a network handler gets.
    pub const NET_PKTS: u32 = 256;
    /// The bytes that a network handler gets.
    pub const NET_BYTES: u64 = 512 << 10;

    /// Makes a fresh budget; `max_bytes` of 0 sets no limit on bytes.
    #[inline]
    pub const fn new(max_pkts: u32, max_bytes: u64) -> Self {
        Self {
            max_pkts,
            max_bytes,
            pkts: 0,
            bytes: 0,
        }
    }

    /// Spends one packet of `bytes`; returns whether the budget is now exhausted.
    ///
    /// On `true` the handler queues itself behind the others and stops.
    #[inline]
    pub fn spend(&mut self, bytes: u64) -> bool {
        self.pkts = self.pkts.saturating_add(1);
        self.bytes = self.bytes.saturating_add(bytes);
        self.pkts >= self.max_pkts || (self.max_bytes != 0 && self.bytes >= self.max_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::Budget;

    #[test]
    fn packets_run_out_at_the_limit() {
        let mut budget = Budget::new(Budget::NET_PKTS, Budget::NET_BYTES);
        for _ in 1..Budget::NET_PKTS {
            assert!(!budget.spend(0));
        }
        assert!(budget.spend(0));
        assert!(budget.spend(0));
    }

    #[test]
    fn bytes_run_out_at_the_limit() {
        let mut budget = Budget::new(Budget::NET_PKTS, Budget::NET_BYTES);
        assert!(!budget.spend(Budget::NET_BYTES - 1));
        assert!(budget.spend(1));
        assert!(budget.spend(u64::MAX));
    }

    #[test]
    fn zero_bytes_means_no_byte_limit() {
        let mut budget = Budget::new(3, 0);
        assert!(!budget.spend(u64::MAX));
        assert!(!budget.spend(u64::MAX));
        assert!(budget.spend(0));
    }
}
