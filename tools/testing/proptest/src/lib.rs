// SPDX-License-Identifier: GPL-2.0

//! What the property tests share: a [`rig::Rig`] of device and driver, and inputs for it.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod inputs;
pub mod rig;

use proptest::test_runner::{Config, RngSeed};

/// Cases per property when `PROPTEST_CASES` does not say otherwise.
const CASES: u32 = 1_000;

/// Seed when `PROPTEST_RNG_SEED` does not say otherwise: two runs of one tree test the same.
const SEED: u64 = 0x0076_7269_6e67;

/// The configuration of every property.
///
/// Failures are not written into the tree: the seed and the printed input repeat them.
pub fn config() -> Config {
    let mut config = Config {
        failure_persistence: None,
        max_shrink_iters: 20_000,
        ..Config::default()
    };
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = CASES;
    }
    if config.rng_seed == RngSeed::Random {
        config.rng_seed = RngSeed::Fixed(SEED);
    }
    config
}
