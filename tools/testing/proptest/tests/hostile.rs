// SPDX-License-Identifier: GPL-2.0

//! A guest that lies, before a call and in the middle of one.

use std::rc::Rc;

use proptest::prelude::*;
use vring::{Features, Split, UsedElem};
use vring_model::driver::{Buf, Config, Driver, INDIRECT, NEXT, WRITE};
use vring_model::oracle::{View, Walk, E2BIG, EINVAL, ENOBUFS, EPERM};
use vring_model::probe::{Event, Probe};
use vring_model::ram::Ram;
use vring_model::ring::{Guest, Place, Ring, Segs};
use vring_proptest::inputs::{
    any_agreement, chain, layout, split_at, BORDER, DESC, LOW, TABLES, TOP,
};
use vring_proptest::rig::{as_walk, endian, ring, started, CAP};

/// What the guest overwrites.
#[derive(Clone, Copy, Debug)]
enum Target {
    /// A descriptor of the ring.
    Desc(u16),
    /// A descriptor of an indirect table.
    Table(u16, u64),
    /// An entry of the avail ring.
    Slot(u16),
    /// `avail.idx`, counted from where it is.
    Idx,
}

/// Stands for the first index that the ring does not have.
const FIRST_BAD: u16 = 0xfffe;

#[derive(Clone, Copy, Debug)]
struct Scribble {
    target: Target,
    field: u8,
    addr: u64,
    len: u32,
    flags: u16,
    next: u16,
}

fn scribble() -> impl Strategy<Value = Scribble> {
    let target = prop_oneof![
        6 => (0u16..64).prop_map(Target::Desc),
        4 => (0u16..64, 0u64..4).prop_map(|(head, i)| Target::Table(head, i)),
        2 => (0u16..64).prop_map(Target::Slot),
        1 => Just(Target::Idx),
    ];
    let addr = prop_oneof![
        Just(0),
        Just(LOW - 1),
        Just(LOW),
        Just(BORDER - 8),
        Just(TOP),
        Just(u64::MAX),
        Just(u64::MAX - 15),
        Just(DESC),
        (0u64..64).prop_map(|i| TABLES + 256 * i),
        any::<u64>(),
    ];
    let len = prop_oneof![
        Just(0),
        Just(1),
        Just(15),
        Just(16),
        Just(17),
        Just(0x1000),
        Just(0x10_0010),
        Just(u32::MAX),
        (0u32..9).prop_map(|i| 16 * i),
    ];
    let flags = prop_oneof![8 => 0u16..8, 1 => any::<u16>()];
    let next = prop_oneof![6 => 0u16..65, 2 => Just(FIRST_BAD), 1 => any::<u16>()];
    (target, 0u8..5, addr, len, flags, next).prop_map(|(target, field, addr, len, flags, next)| {
        Scribble {
            target,
            field,
            addr,
            len,
            flags,
            next,
        }
    })
}

fn ordered<const N: usize>(config: &Config, mut little: [u8; N]) -> [u8; N] {
    if config.big {
        little.reverse();
    }
    little
}

fn put16(ram: &Ram, config: &Config, addr: u64, val: u16) {
    ram.poke(addr, &ordered(config, val.to_le_bytes()));
}

fn get16(ram: &Ram, config: &Config, addr: u64) -> u16 {
    let mut raw = [0; 2];
    ram.peek(addr, &mut raw);
    u16::from_le_bytes(ordered(config, raw))
}

impl Scribble {
    fn index(&self, config: &Config) -> u16 {
        match self.next {
            FIRST_BAD => config.num,
            next => next,
        }
    }

    fn apply(&self, ram: &Ram, config: &Config) {
        let avail = config.place.avail;
        match self.target {
            Target::Desc(i) => self.desc(ram, config, DESC + 16 * u64::from(i % config.num)),
            Target::Table(head, i) => {
                let table = TABLES + 512 * u64::from(head % config.num);
                self.desc(ram, config, table + 16 * i);
            }
            Target::Slot(i) => {
                put16(
                    ram,
                    config,
                    avail + 4 + 2 * u64::from(i % config.num),
                    self.index(config),
                );
            }
            Target::Idx => {
                let idx = get16(ram, config, avail + 2);
                put16(
                    ram,
                    config,
                    avail + 2,
                    idx.wrapping_add(self.next).wrapping_sub(16),
                );
            }
        }
    }

    fn desc(&self, ram: &Ram, config: &Config, at: u64) {
        if self.field == 0 || self.field == 4 {
            ram.poke(at, &ordered(config, self.addr.to_le_bytes()));
        }
        if self.field == 1 || self.field == 4 {
            ram.poke(at + 8, &ordered(config, self.len.to_le_bytes()));
        }
        if self.field == 2 || self.field == 4 {
            put16(ram, config, at + 12, self.flags);
        }
        if self.field == 3 || self.field == 4 {
            put16(ram, config, at + 14, self.index(config));
        }
    }
}

struct Victim {
    config: Config,
    ram: Rc<Ram>,
    probe: Rc<Probe>,
    ring: Ring,
    guest: Guest,
    split: Split,
    cap: usize,
    seen: u16,
}

impl Victim {
    fn new(config: Config, chains: &[(Vec<Buf>, usize)], cap: usize, plain: bool) -> Self {
        let mut ram = Ram::new(&layout(config.num));
        if plain {
            ram.protect(TOP, true, false);
            ram.protect(BORDER, false, true);
        }
        let ram = Rc::new(ram);
        let probe = Rc::new(Probe::default());
        let mut driver = Driver::new(ram.clone(), config);
        for (bufs, direct) in chains {
            driver.offer(bufs, *direct);
        }
        driver.publish();
        let ring = ring(&config, &ram, &probe);
        let guest = match plain {
            true => Guest::plain(ram.clone(), probe.clone()),
            false => Guest::fast(ram.clone(), probe.clone()),
        };
        let split = started(&config, features(&config), &ring, config.avail_base);
        Self {
            config,
            ram,
            probe,
            ring,
            guest,
            split,
            cap,
            seen: config.avail_base,
        }
    }

    fn pop(&mut self) -> Result<Option<(u16, Walk)>, i32> {
        let mut segs = Segs::new(self.cap);
        let got = self.split.pop(&self.ring, &mut self.guest, &mut segs);
        let got = got.map_err(|error| error.errno())?;
        Ok(got.map(|chain| (chain.head, as_walk(&chain, &segs))))
    }

    /// What [`Victim::pop`] has to return, from memory as it is now.
    fn expect(&mut self) -> Result<Option<(u16, Walk)>, i32> {
        let Config {
            num, place, big, ..
        } = self.config;
        let base = self.split.base();
        if self.seen == base {
            let idx = get16(&self.ram, &self.config, place.avail + 2);
            if idx.wrapping_sub(base) > num {
                return Err(EINVAL);
            }
            self.seen = idx;
        }
        if self.seen == base {
            return Ok(None);
        }
        let slot = u64::from(base % num);
        let head = get16(&self.ram, &self.config, place.avail + 4 + 2 * slot);
        let view = View {
            ram: &self.ram,
            place,
            num,
            big,
            cap: self.cap,
        };
        view.walk(head).map(|walk| Some((head, walk)))
    }

    /// Starts again, `step` chains further, as a device that has read nothing yet.
    fn restart(&mut self, step: u16) {
        let base = self.split.base().wrapping_add(step);
        self.split = started(&self.config, features(&self.config), &self.ring, base);
        self.seen = base;
    }

    /// Every segment is guest memory of the right kind.
    fn check_segs(&self, walk: &Walk) {
        for (i, (user, len)) in walk.segs.iter().enumerate() {
            let inside = |a: &&vring_model::ram::Area| {
                let size = u128::from(a.last - a.start) + 1;
                *user >= a.user && u128::from(*user - a.user) + u128::from(*len) <= size
            };
            let area = self
                .ram
                .areas()
                .iter()
                .find(inside)
                .expect("a segment outside of memory");
            let write = i >= walk.out_segs as usize;
            assert!(
                if write { area.writable } else { area.readable },
                "a forbidden segment"
            );
        }
        assert_eq!(walk.segs.len(), (walk.out_segs + walk.in_segs) as usize);
        assert_eq!(
            walk.segs.iter().map(|s| s.1).sum::<u64>(),
            walk.out_len + walk.in_len
        );
        assert!(
            walk.descs <= self.config.num,
            "more descriptors than the ring has"
        );
    }
}

fn features(config: &Config) -> Features {
    Features {
        event_idx: config.event_idx,
        notify_on_empty: false,
    }
}

fn chains() -> impl Strategy<Value = Vec<(Vec<Buf>, usize)>> {
    prop::collection::vec((chain(), split_at()), 1..12)
}

fn cap() -> impl Strategy<Value = usize> {
    prop_oneof![3 => Just(CAP), 1 => 0usize..6]
}

proptest! {
    #![proptest_config(vring_proptest::config())]

    #[test]
    fn lies_before_a_call_give_the_right_errno(
        config in any_agreement(),
        chains in chains(),
        plain in any::<bool>(),
        cap in cap(),
        lies in prop::collection::vec(prop::collection::vec(scribble(), 0..6), 1..12),
    ) {
        let mut victim = Victim::new(config, &chains, cap, plain);
        let mut skip = 0;
        for lies in &lies {
            lies.iter().for_each(|lie| lie.apply(&victim.ram, &victim.config));
            // What was published before the lie may have been read before it, too.
            victim.restart(std::mem::take(&mut skip));
            let base = victim.split.base();
            let want = victim.expect();
            prop_assert_eq!(&victim.pop(), &want);
            match want {
                Ok(Some((_, walk))) => {
                    prop_assert_eq!(victim.split.base(), base.wrapping_add(1));
                    victim.check_segs(&walk);
                }
                Ok(None) => prop_assert_eq!(victim.split.base(), base),
                Err(_) => {
                    prop_assert_eq!(victim.split.base(), base);
                    prop_assert_eq!(&victim.pop(), &want, "the same chain, the same answer");
                    skip = 1;
                }
            }
        }
    }

    #[test]
    fn lies_during_a_call_change_nothing_that_was_checked(
        config in any_agreement(),
        chains in chains(),
        plain in any::<bool>(),
        cap in cap(),
        lies in prop::collection::vec((0u32..12, scribble()), 1..40),
        fail_at in prop::option::weighted(0.2, 0u32..12),
    ) {
        let mut victim = Victim::new(config, &chains, cap, plain);
        for lies in lies.chunks(5) {
            let (ram, lies) = (victim.ram.clone(), lies.to_vec());
            victim.probe.begin();
            if let Some(step) = fail_at {
                victim.probe.fail_at(step);
            }
            victim.probe.set_hook(Box::new(move |step| {
                let due = lies.iter().filter(|(at, _)| *at == step);
                due.for_each(|(_, lie)| lie.apply(&ram, &config));
            }));
            let base = victim.split.base();
            let got = victim.pop();
            // Ring and table have fewer than 64 and 2,300 descriptors, each is read at most once.
            prop_assert!(victim.probe.trace().len() < 4 + 2 * 64 + 2 * 2_300, "unbounded walk");
            let moved = victim.split.base().wrapping_sub(base);
            match got {
                Ok(Some((head, walk))) => {
                    prop_assert_eq!(moved, 1);
                    prop_assert!(head < config.num);
                    victim.check_segs(&walk);
                    let elem = UsedElem::new(u32::from(head), 0, endian(&config));
                    victim.probe.begin();
                    prop_assert!(victim.split.add_used(&victim.ring, &[elem]).is_ok());
                    prop_assert!(victim.split.needs_signal(&victim.ring).is_ok());
                }
                Ok(None) => prop_assert_eq!(moved, 0),
                Err(_) => {
                    prop_assert_eq!(moved, 0);
                    victim.probe.begin();
                    victim.restart(1);
                }
            }
        }
    }

    #[test]
    fn the_device_trusts_its_own_used_index(
        config in any_agreement(),
        lies in prop::collection::vec(any::<u16>(), 1..20),
    ) {
        let mut victim = Victim::new(config, &[], CAP, false);
        let used = config.place.used;
        for (i, lie) in lies.iter().enumerate() {
            put16(&victim.ram, &config, used + 2, *lie);
            let elem = UsedElem::new(i as u32, *lie as u32, endian(&config));
            prop_assert!(victim.split.add_used(&victim.ring, &[elem]).is_ok());
            let old = config.used_base.wrapping_add(i as u16);
            let idx = get16(&victim.ram, &config, used + 2);
            prop_assert_eq!(idx, old.wrapping_add(1));
            let mut entry = [0; 8];
            victim.ram.peek(used + 4 + 8 * u64::from(old % config.num), &mut entry);
            prop_assert_eq!(entry, elem.to_bytes());
        }
    }

    #[test]
    fn more_used_entries_than_the_ring_has_stay_in_the_ring(
        config in any_agreement(),
        count in 0usize..300,
    ) {
        let mut victim = Victim::new(config, &[], CAP, false);
        let elem = |i| UsedElem::new(i as u32, 0, endian(&config));
        let elems: Vec<UsedElem> = (0..count).map(elem).collect();
        prop_assert_eq!(victim.split.add_used(&victim.ring, &elems), Ok(()));
        let idx = get16(&victim.ram, &config, config.place.used + 2);
        prop_assert_eq!(idx, config.used_base.wrapping_add(count as u16));
        let kept = count.saturating_sub(usize::from(config.num));
        for (i, elem) in elems.iter().enumerate().skip(kept) {
            let slot = config.used_base.wrapping_add(i as u16) % config.num;
            let mut entry = [0; 8];
            victim.ram.peek(config.place.used + 4 + 8 * u64::from(slot), &mut entry);
            prop_assert_eq!(entry, elem.to_bytes());
        }
    }
}

/// A ring of one descriptor that points at a table in `areas`.
fn one_table(areas: &[(u64, u64)], addr: u64, len: u32) -> (Rc<Ram>, Victim) {
    let rings = 0x7000_0000;
    let place = Place {
        desc: rings,
        avail: rings + 0x100,
        used: rings + 0x200,
    };
    let config = Config {
        num: 1,
        big: false,
        event_idx: false,
        avail_base: 0,
        used_base: 0,
        place,
        tables: addr,
        stride: 1,
    };
    let mut layout = areas.to_vec();
    layout.push((rings, 0x300));
    let ram = Rc::new(Ram::new(&layout));
    let probe = Rc::new(Probe::default());
    let mut driver = Driver::new(ram.clone(), config);
    driver.put_desc(place.desc, addr, len, INDIRECT, 0);
    driver.put_head(0);
    driver.publish();
    let ring = Ring::new(ram.clone(), probe.clone(), place, 1, false);
    let guest = Guest::fast(ram.clone(), probe.clone());
    let split = started(&config, features(&config), &ring, 0);
    let victim = Victim {
        config,
        ram: ram.clone(),
        probe,
        ring,
        guest,
        split,
        cap: CAP,
        seen: 0,
    };
    (ram, victim)
}

fn fill_table(ram: &Ram, addr: u64, count: u64, flags: u16) {
    let mut desc = [0; 16];
    desc[12..14].copy_from_slice(&flags.to_le_bytes());
    for i in 0..count {
        desc[14..16].copy_from_slice(&((i + 1) as u16).to_le_bytes());
        ram.poke(addr + 16 * i, &desc);
    }
}

#[test]
fn the_longest_table_is_walked_and_no_longer_one() {
    let (ram, mut victim) = one_table(&[(0, 0x20_0000)], 0, 0x10_0000);
    fill_table(&ram, 0, 0x1_0000, NEXT);
    assert_eq!(victim.pop(), Err(EINVAL), "a table without an end");
    assert!(
        victim.probe.trace().len() < 0x1_0000 * 2 + 100,
        "unbounded walk"
    );
    fill_table(&ram, 16 * 0xffff, 1, 0);
    let got = victim.pop().expect("65,536 descriptors").expect("a chain");
    assert_eq!(got.1.descs, 1);
    let (ram, mut victim) = one_table(&[(0, 0x20_0000)], 0, 0x10_0010);
    fill_table(&ram, 0, 1, 0);
    assert_eq!(victim.pop(), Err(E2BIG));
}

#[test]
fn a_table_in_too_many_pieces_is_refused() {
    for (pieces, want) in [(1024, None), (1025, Some(ENOBUFS))] {
        let areas: Vec<(u64, u64)> = (0..pieces).map(|i| (i * 0x200, 0x200)).collect();
        let (_ram, mut victim) = one_table(&areas, 0, (pieces * 0x200) as u32);
        assert_eq!(victim.pop().err(), want, "{pieces} pieces");
        let translated = |e: &Event| matches!(e, Event::Translate(..));
        assert!(
            victim.probe.trace().iter().any(translated),
            "the table was not translated"
        );
    }
}

#[test]
fn a_hole_behind_the_last_descriptor_of_a_table_is_seen() {
    let (ram, mut victim) = one_table(&[(0, 0x100)], 0, 0x110);
    fill_table(&ram, 0, 1, 0);
    assert_eq!(victim.pop(), Err(vring_model::oracle::EFAULT));
    let reads = |e: &Event| matches!(e, Event::GuestRead(..));
    assert!(
        !victim.probe.trace().iter().any(reads),
        "a descriptor was used too early"
    );
}

#[test]
fn a_forbidden_buffer_is_named() {
    let config = vring_proptest::inputs::agreement(1, false, false, 0, 0);
    for (addr, write, want) in [(TOP, true, EPERM), (BORDER, false, EPERM)] {
        let bufs = vec![Buf {
            addr,
            len: 1,
            write,
        }];
        let mut victim = Victim::new(config, &[(bufs, 1)], CAP, true);
        assert_eq!(victim.pop(), Err(want), "flag {}", u16::from(write) * WRITE);
    }
}
