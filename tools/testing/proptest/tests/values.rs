// SPDX-License-Identifier: GPL-2.0

//! The small types: budget, byte order, layout, set-up, errno.

use proptest::prelude::*;
use vring::{layout, Budget, Desc, Endian, Error, Features, GuestAddr, Split, UsedElem, UserAddr};
use vring::{V16, V32, V64};

proptest! {
    #![proptest_config(vring_proptest::config())]

    #[test]
    fn a_budget_ends_at_either_limit(
        max_pkts in prop_oneof![0u32..20, any::<u32>()],
        max_bytes in prop_oneof![1 => Just(0u64), 4 => 0u64..100_000, 4 => any::<u64>()],
        spent in prop::collection::vec(prop_oneof![8 => 0u64..9_000, 1 => any::<u64>()], 1..40),
    ) {
        let mut budget = Budget::new(max_pkts, max_bytes);
        let mut sum = 0u128;
        for (i, bytes) in spent.iter().enumerate() {
            sum += u128::from(*bytes);
            // As in the C twin, no limit on bytes is written as 0.
            let heavy = max_bytes != 0 && sum >= u128::from(max_bytes);
            let over = heavy || i as u128 + 1 >= u128::from(max_pkts);
            prop_assert_eq!(budget.spend(*bytes), over, "packet {}", i);
        }
    }

    #[test]
    fn byte_order_is_that_of_the_bytes(a in any::<u16>(), b in any::<u32>(), c in any::<u64>()) {
        prop_assert_eq!(V16::new(a, Endian::Little).to_ne_bytes(), a.to_le_bytes());
        prop_assert_eq!(V16::new(a, Endian::Big).to_ne_bytes(), a.to_be_bytes());
        prop_assert_eq!(V32::from_ne_bytes(b.to_le_bytes()).get(Endian::Little), b);
        prop_assert_eq!(V32::from_ne_bytes(b.to_be_bytes()).get(Endian::Big), b);
        prop_assert_eq!(V64::new(c, Endian::Big).to_ne_bytes(), c.to_be_bytes());
        prop_assert_eq!(V64::from_ne_bytes(c.to_le_bytes()).get(Endian::Little), c);
        prop_assert_eq!(V16::from_raw(a).raw(), a);
        prop_assert_eq!(V16::new(a, Endian::NATIVE).raw(), a);
    }

    #[test]
    fn ring_entries_have_the_bytes_of_the_standard(
        addr in any::<u64>(),
        len in any::<u32>(),
        flags in any::<u16>(),
        next in any::<u16>(),
    ) {
        let little: Vec<u8> = [&addr.to_le_bytes()[..], &len.to_le_bytes(), &flags.to_le_bytes(), &next.to_le_bytes()].concat();
        let bytes: [u8; 16] = little.try_into().expect("16 bytes");
        let desc = Desc::from_bytes(&bytes);
        prop_assert_eq!(desc.addr().get(Endian::Little), addr);
        prop_assert_eq!(desc.len().get(Endian::Little), len);
        prop_assert_eq!(desc.flags().get(Endian::Little), flags);
        prop_assert_eq!(desc.next().get(Endian::Little), next);
        prop_assert_eq!(desc.to_bytes(), bytes);
        let elem = UsedElem::new(len, next.into(), Endian::Big);
        let big = [len.to_be_bytes(), u32::from(next).to_be_bytes()].concat();
        prop_assert_eq!(&elem.to_bytes()[..], &big[..]);
        prop_assert_eq!(UsedElem::from_bytes(&elem.to_bytes()), elem);
    }

    #[test]
    fn the_layout_is_that_of_the_standard(log in 0u32..16, event in any::<bool>()) {
        let num = 1u16 << log;
        let n = usize::from(num);
        let tail = if event { 2 } else { 0 };
        prop_assert_eq!(layout::desc_size(num), 16 * n);
        prop_assert_eq!(layout::avail_size(num, event), 4 + 2 * n + tail);
        prop_assert_eq!(layout::used_size(num, event), 4 + 8 * n + tail);
        prop_assert_eq!(layout::used_event(num), 4 + 2 * n);
        prop_assert_eq!(layout::avail_event(num), 4 + 8 * n);
        prop_assert_eq!(layout::desc(num - 1), 16 * (n - 1));
        prop_assert_eq!(layout::avail_slot(num - 1), 2 + 2 * n);
        prop_assert_eq!(layout::used_slot(num - 1), 8 * n - 4);
    }

    #[test]
    fn only_legal_settings_are_taken(num in prop_oneof![any::<u32>(), 0u32..70_000], base in 0u32..140_000) {
        let mut split = Split::new();
        let legal = num.is_power_of_two() && num <= 0x8000;
        prop_assert_eq!(split.set_num(num), if legal { Ok(()) } else { Err(Error::Num { num }) });
        prop_assert_eq!(u32::from(split.num()), if legal { num } else { 1 });
        let legal = base <= 0xffff;
        prop_assert_eq!(split.set_base(base), if legal { Ok(()) } else { Err(Error::Base { base }) });
        prop_assert_eq!(u32::from(split.base()), if legal { base } else { 0 });
    }

    #[test]
    fn addresses_do_not_wrap(addr in any::<u64>(), off in any::<u64>()) {
        let sum = addr.checked_add(off);
        prop_assert_eq!(GuestAddr::new(addr).checked_add(off).map(GuestAddr::get), sum);
        prop_assert_eq!(UserAddr::new(addr).checked_add(off).map(UserAddr::get), sum);
    }
}

#[test]
fn each_power_of_two_is_a_ring_size() {
    for log in 0..32 {
        let mut split = Split::new();
        assert_eq!(split.set_num(1 << log).is_ok(), log <= 15, "2^{log}");
    }
}

#[test]
fn features_are_kept() {
    let mut split = Split::new();
    let features = Features {
        event_idx: true,
        notify_on_empty: true,
    };
    split.set_features(features);
    assert_eq!(split.features(), features);
}

#[test]
fn each_error_has_its_errno_and_one_line() {
    let addr = GuestAddr::new(0xabcd_ef01);
    let table = [
        (Error::Fault, 14),
        (
            Error::AvailJump {
                last_avail_idx: 1,
                avail_idx: 9,
                num: 4,
            },
            22,
        ),
        (Error::Head { head: 9, num: 4 }, 22),
        (Error::Next { next: 9, num: 4 }, 22),
        (Error::Loop { head: 1 }, 22),
        (Error::OutAfterIn { head: 1 }, 22),
        (Error::IndirectLen { len: 17 }, 22),
        (Error::IndirectTooBig { len: 0x10_0010 }, 7),
        (Error::IndirectLoop { len: 16 }, 22),
        (Error::IndirectNext { head: 1 }, 22),
        (Error::IndirectNested, 22),
        (Error::IndirectFault, 22),
        (Error::Unmapped { addr }, 14),
        (Error::Perm { addr }, 1),
        (Error::Segments, 105),
        (Error::Num { num: 3 }, 22),
        (Error::Base { base: 0x1_0000 }, 22),
        (
            Error::Region {
                start: addr,
                size: u64::MAX,
            },
            14,
        ),
    ];
    for (error, errno) in table {
        assert_eq!(error.errno(), errno, "{error}");
        let text = error.to_string();
        assert!(!text.is_empty() && !text.contains('\n'), "{text:?}");
    }
}
