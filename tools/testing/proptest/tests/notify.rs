// SPDX-License-Identifier: GPL-2.0

//! No kick and no interrupt is lost, however driver and device are interleaved.
//!
//! The driver acts between two accesses of the device. Barriers are steps as well, so that "store
//! the wish, look again" is cut at every place where another CPU could come in between.

use std::cell::RefCell;
use std::rc::Rc;

use proptest::prelude::*;
use vring::{Features, Split, UsedElem};
use vring_model::driver::{Buf, Config, Driver};
use vring_model::probe::Probe;
use vring_model::ram::Ram;
use vring_model::ring::{Guest, Ring, Segs};
use vring_proptest::inputs::{agreement, any_agreement, layout};
use vring_proptest::rig::{endian, ring, started, CAP};

const BUF: Buf = Buf {
    addr: 0x100,
    len: 64,
    write: true,
};

struct Parts {
    probe: Rc<Probe>,
    ring: Ring,
    guest: Guest,
    driver: Driver,
    split: Split,
}

fn parts(config: Config) -> Parts {
    let ram = Rc::new(Ram::new(&layout(config.num)));
    let probe = Rc::new(Probe::default());
    let driver = Driver::new(ram.clone(), config);
    let ring = ring(&config, &ram, &probe);
    let guest = Guest::fast(ram, probe.clone());
    let features = Features {
        event_idx: config.event_idx,
        notify_on_empty: false,
    };
    let split = started(&config, features, &ring, config.avail_base);
    Parts {
        probe,
        ring,
        guest,
        driver,
        split,
    }
}

/// A driver that publishes a batch and asks whether to kick, each at its own step.
struct Kicker {
    driver: Driver,
    /// Steps for "publish, ask, publish, ask, …", never falling.
    times: Vec<u32>,
    at: usize,
    now: u32,
    published: Vec<u16>,
    kick: bool,
}

impl Kicker {
    fn act(&mut self) {
        if self.at % 2 == 1 {
            self.kick |= self.driver.should_kick();
        } else if let Some(head) = self.driver.offer(&[BUF], 1) {
            self.driver.publish();
            self.published.push(head);
        }
        self.at += 1;
    }

    fn step(&mut self) {
        while self
            .times
            .get(self.at)
            .is_some_and(|time| *time <= self.now)
        {
            self.act();
        }
        self.now += 1;
    }

    /// While the device sleeps the driver goes on alone until it kicks or is done.
    fn alone(&mut self) {
        while !self.kick && self.at < self.times.len() {
            self.act();
        }
        // The rest comes once the device runs again.
        self.now = self.times.get(self.at).copied().unwrap_or(0);
    }
}

/// Runs the device's loop until the driver is done, and returns the heads popped.
fn serve(config: Config, times: Vec<u32>) -> (Vec<u16>, Vec<u16>) {
    let Parts {
        probe,
        ring,
        mut guest,
        driver,
        mut split,
    } = parts(config);
    let kicker = Kicker {
        driver,
        times,
        at: 0,
        now: 0,
        published: Vec::new(),
        kick: false,
    };
    let kicker = Rc::new(RefCell::new(kicker));
    let other = kicker.clone();
    probe.begin();
    probe.set_hook(Box::new(move |_| other.borrow_mut().step()));
    let mut popped = Vec::new();
    loop {
        split.disable_notify(&ring).expect("no fault was asked for");
        while let Some(chain) = split
            .pop(&ring, &mut guest, &mut Segs::new(CAP))
            .expect("a legal chain")
        {
            popped.push(chain.head);
        }
        if split.enable_notify(&ring).expect("no fault was asked for") {
            continue;
        }
        let mut kicker = kicker.borrow_mut();
        kicker.alone();
        if !std::mem::take(&mut kicker.kick) {
            break;
        }
    }
    let published = kicker.borrow().published.clone();
    (popped, published)
}

/// A driver that reads used entries, asks for an interrupt, looks again and sleeps.
struct Reader {
    driver: Driver,
    /// How many acts it does before each of the device's steps.
    pace: Vec<u8>,
    at: usize,
    state: State,
    delay: u16,
    read: Vec<u32>,
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    Read,
    Ask,
    LookAgain,
    Sleep,
}

impl Reader {
    fn ask(&mut self) {
        match self.driver.config.event_idx {
            true => self.driver.set_used_event(self.driver.used_idx()),
            false => self.driver.set_no_interrupt(false),
        }
    }

    fn act(&mut self) {
        self.state = match self.state {
            State::Read => match self.driver.take_used() {
                Some((id, _)) => {
                    self.read.push(id);
                    State::Read
                }
                None => State::Ask,
            },
            State::Ask => {
                self.ask();
                State::LookAgain
            }
            State::LookAgain if self.driver.device_used_idx() == self.driver.used_idx() => {
                State::Sleep
            }
            State::LookAgain => State::Read,
            State::Sleep => State::Sleep,
        };
    }

    fn step(&mut self) {
        let pace = self.pace.get(self.at).copied().unwrap_or(0);
        self.at += 1;
        (0..pace).for_each(|_| self.act());
    }

    /// An interrupt: the handler masks further ones and lets the reader run.
    fn interrupt(&mut self) {
        if self.state != State::Sleep {
            return;
        }
        match self.driver.config.event_idx {
            true => self
                .driver
                .set_used_event(self.driver.used_idx().wrapping_sub(self.delay)),
            false => self.driver.set_no_interrupt(true),
        }
        self.state = State::Read;
    }

    fn finish(&mut self) {
        while self.state != State::Sleep {
            self.act();
        }
    }
}

/// Returns `batches` of used entries, and what the driver had read when both came to rest.
fn complete(config: Config, batches: &[usize], pace: Vec<u8>, delay: u16) -> (Vec<u32>, Vec<u32>) {
    let Parts {
        probe,
        ring,
        mut guest,
        mut driver,
        mut split,
    } = parts(config);
    while driver.offer(&[BUF], 1).is_some() {}
    driver.publish();
    let mut held = Vec::new();
    while let Some(chain) = split
        .pop(&ring, &mut guest, &mut Segs::new(CAP))
        .expect("a legal chain")
    {
        held.push(u32::from(chain.head));
    }
    let reader = Reader {
        driver,
        pace,
        at: 0,
        state: State::Read,
        delay,
        read: Vec::new(),
    };
    let reader = Rc::new(RefCell::new(reader));
    let other = reader.clone();
    probe.begin();
    probe.set_hook(Box::new(move |_| other.borrow_mut().step()));
    let mut used = Vec::new();
    for batch in batches {
        let ids: Vec<u32> = held.drain(..(*batch).min(held.len())).collect();
        let elems: Vec<UsedElem> = ids
            .iter()
            .map(|id| UsedElem::new(*id, 1, endian(&config)))
            .collect();
        split
            .add_used(&ring, &elems)
            .expect("no fault was asked for");
        used.extend(ids);
        if split.needs_signal(&ring).expect("no fault was asked for") {
            reader.borrow_mut().interrupt();
        }
    }
    let mut reader = reader.borrow_mut();
    reader.finish();
    (used, reader.read.clone())
}

/// Bases at which the ring or the index wraps within the next few entries.
const BASES: [u16; 7] = [0, 1, 3, 0x7fff, 0xfffd, 0xfffe, 0xffff];

fn each_agreement(mut check: impl FnMut(Config)) {
    for num in [1, 2, 4] {
        for base in BASES {
            for (big, event) in [(false, false), (false, true), (true, false), (true, true)] {
                check(agreement(num, big, event, base, base));
            }
        }
    }
}

#[test]
fn one_chain_at_every_step_is_kicked_or_seen() {
    each_agreement(|config| {
        for publish in 0..14 {
            for ask in publish..14 {
                let (popped, published) = serve(config, vec![publish, ask]);
                assert_eq!(
                    popped, published,
                    "{config:?}: publish at {publish}, ask at {ask}"
                );
            }
        }
    });
}

#[test]
fn two_chains_at_every_step_are_kicked_or_seen() {
    each_agreement(|config| {
        for first in 0..12 {
            for second in first..16 {
                let (popped, published) = serve(config, vec![first, first, second, second]);
                assert_eq!(
                    popped, published,
                    "{config:?}: publish at {first} and {second}"
                );
            }
        }
    });
}

#[test]
fn one_entry_at_every_step_is_interrupted_or_seen() {
    each_agreement(|config| {
        for wait in 0..12 {
            for batches in [[1, 0, 0], [1, 1, 0], [1, 1, 1], [2, 1, 1]] {
                for burst in 1..5 {
                    let mut pace = vec![1; 40];
                    pace.splice(..0, vec![0; wait]);
                    pace[wait] = burst;
                    let (used, read) = complete(config, &batches, pace, 1);
                    assert_eq!(read, used, "{config:?}: {batches:?}, {wait} steps late");
                }
            }
        }
    });
}

proptest! {
    #![proptest_config(vring_proptest::config())]

    #[test]
    fn no_kick_is_lost(
        config in any_agreement(),
        mut times in prop::collection::vec(0u32..200, 2..60),
    ) {
        times.sort_unstable();
        // A driver always asks after it has published.
        times.truncate((times.len() & !1).min(2 * usize::from(config.num)));
        let (popped, published) = serve(config, times);
        prop_assert_eq!(popped, published);
    }

    #[test]
    fn no_interrupt_is_lost(
        config in any_agreement(),
        batches in prop::collection::vec(0usize..9, 1..20),
        pace in prop::collection::vec(0u8..4, 0..120),
        delay in 1u16..100,
    ) {
        let (used, read) = complete(config, &batches, pace, delay);
        prop_assert_eq!(read, used);
    }
}
