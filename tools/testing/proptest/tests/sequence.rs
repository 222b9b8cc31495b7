// SPDX-License-Identifier: GPL-2.0

//! Any sequence of legal calls, with faults, on any ring: [`vring_proptest::rig`] holds the rules.

use proptest::prelude::*;
use vring_model::driver::Buf;
use vring_proptest::inputs::{any_agreement, chain, split_at};
use vring_proptest::rig::Rig;

#[derive(Clone, Debug)]
enum Op {
    Offer(Vec<(Vec<Buf>, usize)>, bool),
    Pop(u8),
    Undo(usize),
    Use(Vec<(usize, u32)>),
    ReadUsed,
    Signal(u16),
    Enable,
    Disable,
    Empty,
    Restart(bool),
}

fn op() -> impl Strategy<Value = (Op, Option<u32>)> {
    let offer = (
        prop::collection::vec((chain(), split_at()), 1..6),
        prop::bool::weighted(0.9),
    );
    let used = prop::collection::vec((any::<usize>(), any::<u32>()), 0..70);
    let op = prop_oneof![
        6 => offer.prop_map(|(chains, publish)| Op::Offer(chains, publish)),
        6 => (1u8..8).prop_map(Op::Pop),
        2 => (0usize..4).prop_map(Op::Undo),
        5 => used.prop_map(Op::Use),
        4 => Just(Op::ReadUsed),
        4 => any::<u16>().prop_map(Op::Signal),
        3 => Just(Op::Enable),
        3 => Just(Op::Disable),
        1 => Just(Op::Empty),
        1 => any::<bool>().prop_map(Op::Restart),
    ];
    (op, prop::option::weighted(0.15, 0u32..6))
}

fn play(rig: &mut Rig, op: &Op, fail_at: Option<u32>) {
    match op {
        Op::Offer(chains, publish) => {
            for (bufs, direct) in chains {
                rig.offer(bufs, *direct);
            }
            if *publish {
                rig.publish();
            }
        }
        Op::Pop(count) => {
            rig.pop(fail_at);
            (1..*count).for_each(|_| rig.pop(None));
        }
        Op::Undo(count) => rig.undo(*count),
        Op::Use(picks) => rig.add_used(picks, fail_at),
        Op::ReadUsed => rig.read_used(),
        Op::Signal(wish) => rig.signal(*wish, fail_at),
        Op::Enable => rig.enable_notify(fail_at),
        Op::Disable => rig.disable_notify(fail_at),
        Op::Empty => rig.avail_empty(fail_at),
        Op::Restart(fresh) => rig.restart(*fresh, fail_at),
    }
}

proptest! {
    #![proptest_config(vring_proptest::config())]

    #[test]
    fn any_sequence_keeps_the_rules(
        config in any_agreement(),
        notify_on_empty in prop::bool::weighted(0.25),
        plain in prop::bool::weighted(0.25),
        ops in prop::collection::vec(op(), 1..60),
    ) {
        let mut rig = Rig::new(config, notify_on_empty, plain);
        for (op, fail_at) in &ops {
            play(&mut rig, op, *fail_at);
        }
        rig.drain();
    }
}
