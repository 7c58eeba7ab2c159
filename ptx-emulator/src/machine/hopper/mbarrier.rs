//! `mbarrier`: lowering and execution (PTX ISA 9.7.13.15).

use super::super::context::{Context, Outcome, Step, lanes_of};
use super::{Place, Window};
use crate::check::{Fault, ReportKind};
use crate::error::Error;
use crate::order::Kind;
use crate::program::{Builder, Class, Detail, Instruction, Modifiers, Value};
use crate::sync::{ArrivalState, Mbarrier, MbarrierError, Waited};
use crate::syntax::ast::{self, Operand, Type};

/// A lane's arrival at an mbarrier when its copies are complete.
#[derive(Debug)]
pub(super) struct CopyArrival {
    place: Place,
    /// The lane: the block's rank, the warp, the lane in it.
    of: (usize, usize, usize),
    /// Its copies have numbers below that.
    end: u64,
    line: u32,
}

/// An instruction on an mbarrier.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operation {
    action: Action,
    window: Window,
    offset: i64,
    relaxed: bool,
    name: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Init,
    Invalidate,
    Arrive,
    ArriveExpect,
    ArriveDrop,
    ArriveDropExpect,
    ArriveNoComplete,
    /// An arrival when the lane's copies are complete; it is expected already, or not.
    Copies,
    CopiesToo,
    Expect,
    Complete,
    WaitState,
    WaitParity,
}

impl Action {
    /// Whether there is a second number, and whether it may be left out (it is 1 then).
    fn count(self) -> (bool, bool) {
        match self {
            Action::Init | Action::Expect | Action::Complete | Action::ArriveNoComplete => {
                (true, false)
            }
            Action::ArriveExpect | Action::ArriveDropExpect => (true, false),
            Action::Arrive | Action::ArriveDrop => (true, true),
            Action::Copies | Action::CopiesToo => (false, false),
            Action::Invalidate | Action::WaitState | Action::WaitParity => (false, false),
        }
    }

    /// Whether it is not for another block's mbarrier, whatever its state space: arrivals and
    /// transactions may be.
    fn is_own(self) -> bool {
        use Action::{Init, Invalidate, WaitParity, WaitState};
        matches!(self, Init | Invalidate | WaitState | WaitParity)
    }
}

/// Lowers `mbarrier`.
pub(super) fn lower(b: &mut Builder<'_, '_>, i: &ast::Instruction) -> Result<(), Error> {
    let mut modifiers = Modifiers::new(i);
    let verbs = ["init", "inval", "arrive", "arrive_drop", "expect_tx", "complete_tx"];
    let waits = ["test_wait", "try_wait", "pending_count"];
    let verb = modifiers.find(|w| verbs.iter().chain(&waits).find(|verb| **verb == w).copied());
    let Some(verb) = verb else { return Err(modifiers.unsupported("this form")) };
    if verb == "pending_count" {
        return lower_pending(b, i, &mut modifiers);
    }
    let (expect, no_complete) = (modifiers.flag("expect_tx"), modifiers.flag("noComplete"));
    let parity = modifiers.flag("parity");
    let action = match (verb, expect, no_complete, parity) {
        ("init", false, false, false) => Action::Init,
        ("inval", false, false, false) => Action::Invalidate,
        ("arrive", false, false, false) => Action::Arrive,
        ("arrive", true, false, false) => Action::ArriveExpect,
        ("arrive", false, true, false) => Action::ArriveNoComplete,
        ("arrive_drop", false, false, false) => Action::ArriveDrop,
        ("arrive_drop", true, false, false) => Action::ArriveDropExpect,
        ("expect_tx", false, false, false) => Action::Expect,
        ("complete_tx", false, false, false) => Action::Complete,
        ("test_wait" | "try_wait", false, false, false) => Action::WaitState,
        ("test_wait" | "try_wait", false, false, true) => Action::WaitParity,
        _ => return Err(modifiers.unsupported("this form")),
    };
    let is_wait = matches!(action, Action::WaitState | Action::WaitParity);
    let ordered = if is_wait { "acquire" } else { "release" };
    let relaxed = modifiers.choose(&[("relaxed", true), (ordered, false)]).unwrap_or(false);
    modifiers.choose(&[("cta", ()), ("cluster", ())]);
    let space = modifiers.choose(&[("shared", 1), ("shared::cta", 1), ("shared::cluster", 2)]);
    if is_wait && space == Some(2) {
        return Err(modifiers.invalid("a wait for another block's mbarrier"));
    }
    if modifiers.ty()? != Type::B64 {
        return Err(modifiers.invalid("the type is not .b64"));
    }
    modifiers.finish()?;
    b.beyond_barriers();
    let mut out = Instruction::new(if is_wait { wait } else { act }, Class::Synchronization);
    let gives_state = matches!(verb, "arrive" | "arrive_drop");
    let mut operands = i.operands.iter();
    let missing = || Modifiers::new(i).invalid("an operand is missing");
    if is_wait {
        out.p = b.predicate_destination(operands.next().ok_or_else(missing)?)?;
    } else if gives_state && !matches!(i.operands.first(), Some(Operand::Address(_))) {
        out.d = b.destination(operands.next().ok_or_else(missing)?, Type::B64)?;
    }
    let address = b.address(operands.next().ok_or_else(missing)?)?;
    out.a = address.base;
    let (counts, optional) = action.count();
    if counts {
        out.b = match operands.next() {
            Some(count) => b.source(count, Type::U32)?,
            None if optional => b.constant(Value::Bits(1)),
            None => return Err(missing()),
        };
    } else if is_wait {
        let ty = if action == Action::WaitState { Type::B64 } else { Type::U32 };
        out.b = b.source(operands.next().ok_or_else(missing)?, ty)?;
        // The time to wait: no time passes here.
        if verb == "try_wait" && operands.len() == 1 {
            b.source(operands.next().ok_or_else(missing)?, Type::U32)?;
        }
    }
    if operands.next().is_some() {
        return Err(modifiers.invalid("too many operands"));
    }
    let generic = space.is_none() && address.home.is_none();
    let window = Window { generic, own_only: space == Some(1) || action.is_own() };
    let name = verbs.iter().chain(&waits).find(|name| **name == verb).unwrap_or(&"");
    let operation = Operation { action, window, offset: address.offset, relaxed, name };
    out.detail = Detail::Hopper(Box::new(super::Operation::Mbarrier(operation)));
    b.add(out);
    Ok(())
}

/// Lowers `cp.async.mbarrier.arrive`: the lane arrives when its copies are complete, which is at
/// once or, as late as may be, when somebody waits for the mbarrier.
pub(super) fn lower_copies(b: &mut Builder<'_, '_>, i: &ast::Instruction) -> Result<(), Error> {
    let [address] = crate::program::exactly(i)?;
    let mut modifiers = Modifiers::new(i);
    modifiers.skip(|word| matches!(word, "async" | "mbarrier"));
    if !modifiers.flag("arrive") {
        return Err(modifiers.unsupported("this form"));
    }
    let counted = modifiers.flag("noinc");
    let space = modifiers.choose(&[("shared", ()), ("shared::cta", ())]);
    if modifiers.ty()? != Type::B64 {
        return Err(modifiers.invalid("the type is not .b64"));
    }
    modifiers.finish()?;
    b.beyond_barriers();
    let address = b.address(address)?;
    let generic = space.is_none() && address.home.is_none();
    let window = Window { generic, own_only: true };
    let action = if counted { Action::Copies } else { Action::CopiesToo };
    let (offset, name) = (address.offset, "arrive");
    let operation = Operation { action, window, offset, relaxed: false, name };
    let mut out = Instruction::new(act, Class::Synchronization);
    out.a = address.base;
    out.b = b.constant(Value::Bits(1));
    out.detail = Detail::Hopper(Box::new(super::Operation::Mbarrier(operation)));
    b.add(out);
    Ok(())
}

/// `mbarrier.pending_count`.
fn lower_pending(
    b: &mut Builder<'_, '_>,
    i: &ast::Instruction,
    modifiers: &mut Modifiers<'_>,
) -> Result<(), Error> {
    let [d, state] = crate::program::exactly(i)?;
    if modifiers.ty()? != Type::B64 {
        return Err(modifiers.invalid("the type is not .b64"));
    }
    modifiers.finish()?;
    let mut out = Instruction::new(
        |c, i| c.unary(i, |state| ArrivalState::from_bits(state).pending_count().into()),
        Class::Synchronization,
    );
    (out.d, out.a) = (b.destination(d, Type::B32)?, b.source(state, Type::B64)?);
    b.add(out);
    Ok(())
}

fn operation(i: &Instruction) -> Operation {
    match &i.detail {
        Detail::Hopper(operation) => match **operation {
            super::Operation::Mbarrier(operation) => operation,
            _ => unreachable!("lowered with an mbarrier's operation"),
        },
        _ => unreachable!("lowered with an mbarrier's operation"),
    }
}

/// Lanes with the same barrier and the same number.
struct Group {
    place: Place,
    lanes: u32,
    number: u64,
}

impl Context<'_> {
    /// The executing lanes, grouped by barrier and number.
    fn mbarrier_groups(
        &self,
        i: &Instruction,
        operation: Operation,
    ) -> Result<Vec<Group>, Box<Fault>> {
        let (addresses, numbers) = (self.lanes(i.a), self.lanes(i.b));
        let mut groups: Vec<Group> = Vec::new();
        for lane in lanes_of(self.mask) {
            let address = addresses[lane].wrapping_add_signed(operation.offset);
            let place = self.shared_place(lane, address, operation.window)?;
            if !place.1.is_multiple_of(8) {
                let message = "the address of an mbarrier is not a multiple of 8";
                let fault = Fault::of_lane(ReportKind::Misaligned, lane, message);
                return Err(fault.at(place.1));
            }
            self.need_shared(lane, place, 8, "an mbarrier")?;
            let number = numbers[lane];
            match groups.iter_mut().find(|g| g.place == place && g.number == number) {
                Some(group) => group.lanes |= 1 << lane,
                None => groups.push(Group { place, lanes: 1 << lane, number }),
            }
        }
        Ok(groups)
    }

    /// The fault of a misused mbarrier.
    fn mbarrier_fault(&self, place: Place, lanes: u32, error: MbarrierError) -> Box<Fault> {
        let note = self.cluster.blocks[place.0].shared.note(place.1);
        let lane = lanes.trailing_zeros() as usize;
        let fault = Fault::of_lane(ReportKind::Mbarrier, lane, error.to_string());
        fault.at(place.1).inside(note)
    }

    /// Faults where several lanes at once begin or end the life of one mbarrier.
    fn check_alone(
        &self,
        operation: Operation,
        place: Place,
        lanes: u32,
    ) -> Result<(), Box<Fault>> {
        let second = lanes & (lanes - 1);
        if second == 0 || !matches!(operation.action, Action::Init | Action::Invalidate) {
            return Ok(());
        }
        let name = operation.name;
        let message =
            format!("mbarrier.{name} of one mbarrier by several threads of a warp at once");
        let lane = second.trailing_zeros() as usize;
        let fault = Fault::of_lane(ReportKind::Mbarrier, lane, message).at(place.1);
        Err(fault.inside(self.cluster.blocks[place.0].shared.note(place.1)))
    }

    /// The mbarrier at a place.
    pub(super) fn mbarrier(
        &mut self,
        place: Place,
        lanes: u32,
    ) -> Result<&mut Mbarrier, Box<Fault>> {
        if !self.cluster.hopper.mbarriers.contains_key(&place) {
            return Err(self.mbarrier_fault(place, lanes, MbarrierError::NotInitialised));
        }
        Ok(self.cluster.hopper.mbarriers.get_mut(&place).expect("it is there"))
    }
}

/// Everything but waits.
fn act(c: &mut Context<'_>, i: &Instruction) -> Outcome {
    let operation = operation(i);
    let groups = c.mbarrier_groups(i, operation)?;
    let mut states = [0; 32];
    if matches!(operation.action, Action::Copies | Action::CopiesToo) {
        if !c.is_eager() {
            return c.arrive_later(i, operation, &groups);
        }
        // Their writes came when they started, before this arrival and those before it: copies that
        // an earlier one counts, and that come only now, are ordered by that one.
        let (rank, warp, end) = (c.rank, c.warp.index, c.warp.copies.started);
        for lane in lanes_of(c.mask) {
            c.land_copies((rank, warp, lane), end)?;
        }
    }
    for Group { place, lanes, number } in groups {
        c.check_alone(operation, place, lanes)?;
        match operation.action {
            Action::Init => c.order_init(lanes, place, i.line)?,
            Action::Invalidate => c.order_bytes(lanes, place, 8, Kind::Write, i.line)?,
            _ => c.order_bytes(lanes, place, 8, Kind::StrongWrite, i.line)?,
        }
        match operation.action {
            Action::Init => {
                let barrier = Mbarrier::new(number as u32);
                let old = c.cluster.hopper.mbarriers.contains_key(&place);
                let barrier = match old {
                    true => Err(MbarrierError::AlreadyInitialised),
                    false => barrier,
                };
                let barrier = barrier.map_err(|error| c.mbarrier_fault(place, lanes, error))?;
                c.cluster.hopper.add_mbarrier(place, barrier);
            }
            Action::Invalidate => {
                c.mbarrier(place, lanes)?;
                c.cluster.hopper.mbarriers.remove(&place);
                c.order_remove(place);
            }
            action => {
                let all = lanes.count_ones();
                let barrier = c.mbarrier(place, lanes)?;
                // All lanes in the same phase arrive at once.
                let arrivals = if action == Action::Arrive { number } else { 1 };
                let together = u64::from(barrier.pending()) >= arrivals * u64::from(all);
                let parts: Vec<u32> = match together {
                    true => vec![lanes],
                    false => lanes_of(lanes).map(|lane| 1 << lane).collect(),
                };
                for part in parts {
                    c.mbarrier_update(operation, place, part, number as u32, &mut states)?;
                }
            }
        }
    }
    if i.d != 0 {
        c.write(i.d, &states);
    }
    Ok(Step::Next)
}

impl Context<'_> {
    /// Lanes arrive when their copies are complete: later, in the phase that runs now.
    fn arrive_later(&mut self, i: &Instruction, operation: Operation, groups: &[Group]) -> Outcome {
        for &Group { place, lanes, .. } in groups {
            self.order_bytes(lanes, place, 8, Kind::StrongWrite, i.line)?;
            let phase = self.mbarrier(place, lanes)?.phase();
            self.order_arrive(lanes, place, phase, operation.relaxed);
            for lane in lanes_of(lanes) {
                if operation.action == Action::CopiesToo {
                    let added = self.mbarrier(place, 1 << lane)?.add_pending();
                    added.map_err(|error| self.mbarrier_fault(place, 1 << lane, error))?;
                }
                let of = (self.rank, self.warp.index, lane);
                let (end, line) = (self.warp.copies.started, i.line);
                let arrival = CopyArrival { place, of, end, line };
                self.cluster.hopper.arrivals.push(arrival);
            }
        }
        Ok(Step::Next)
    }

    /// Lets all lanes arrive at an mbarrier that have left that to their copies. Returns whether
    /// there was one.
    fn complete_arrivals(&mut self, place: Place) -> Result<bool, Box<Fault>> {
        let arrivals = &mut self.cluster.hopper.arrivals;
        let come: Vec<_> = arrivals.extract_if(.., |arrival| arrival.place == place).collect();
        for CopyArrival { of, end, line, .. } in &come {
            self.land_copies(*of, *end)?;
            let arrived = self.mbarrier(place, 1)?.arrive(1);
            arrived.map_err(|error| {
                let mut fault = self.mbarrier_fault(place, 1 << of.2, error);
                (fault.line, fault.warp) = (Some(*line), Some((of.0, of.1)));
                fault
            })?;
        }
        Ok(!come.is_empty())
    }

    /// Arrivals and transactions of lanes, all in one phase.
    fn mbarrier_update(
        &mut self,
        operation: Operation,
        place: Place,
        lanes: u32,
        number: u32,
        states: &mut [u64; 32],
    ) -> Result<(), Box<Fault>> {
        let phase = self.mbarrier(place, lanes)?.phase();
        if !matches!(operation.action, Action::Expect | Action::Complete) {
            self.order_arrive(lanes, place, phase, operation.relaxed);
        }
        for lane in lanes_of(lanes) {
            let barrier = self.mbarrier(place, 1 << lane)?;
            let state = match operation.action {
                Action::Arrive | Action::Copies => barrier.arrive(number),
                Action::CopiesToo => barrier.add_pending().and_then(|()| barrier.arrive(1)),
                Action::ArriveExpect => barrier.arrive_expect(number),
                Action::ArriveDrop => barrier.arrive_drop(number),
                Action::ArriveDropExpect => {
                    barrier.expect(number).and_then(|()| barrier.arrive_drop(1))
                }
                Action::ArriveNoComplete => barrier.arrive_no_complete(number),
                Action::Expect => barrier.expect(number).map(|()| ArrivalState::from_bits(0)),
                Action::Complete => {
                    barrier.complete_transactions(number).map(|()| ArrivalState::from_bits(0))
                }
                _ => Ok(ArrivalState::from_bits(0)),
            };
            let state = state.map_err(|error| self.mbarrier_fault(place, 1 << lane, error))?;
            states[lane] = state.to_bits();
        }
        Ok(())
    }
}

/// Waits.
fn wait(c: &mut Context<'_>, i: &Instruction) -> Outcome {
    let operation = operation(i);
    let groups = c.mbarrier_groups(i, operation)?;
    let (mut done, mut misses) = (0, None);
    for Group { place, lanes, number } in groups {
        let waited = match operation.action {
            Action::WaitState => Waited::State(ArrivalState::from_bits(number)),
            _ => Waited::Parity(number as u32),
        };
        let test = |c: &mut Context<'_>| {
            let barrier = c.mbarrier(place, lanes)?;
            let tested =
                barrier.test(waited).and_then(|is| Ok((is, barrier.waited_phase(waited)?)));
            tested.map_err(|error| c.mbarrier_fault(place, lanes, error))
        };
        let (mut is_over, mut phase) = test(c)?;
        if !is_over && (c.complete_loads(place)? | c.complete_arrivals(place)?) {
            (is_over, phase) = test(c)?;
        }
        if !is_over {
            let barrier = c.mbarrier(place, lanes)?;
            misses.get_or_insert(barrier.describe(place.1 as u32));
            continue;
        }
        done |= lanes;
        c.order_bytes(lanes, place, 8, Kind::StrongRead, i.line)?;
        if let Some(phase) = phase {
            c.order_waited(lanes, place, phase, operation.relaxed);
        }
    }
    if let (0, Some(misses), "try_wait") = (done, misses, operation.name) {
        c.warp.status = super::super::warp::Status::Polling(misses);
        return Ok(Step::Retry);
    }
    c.write_predicate(i.p, done);
    if done == 0 {
        c.frame.spin();
    }
    Ok(Step::Next)
}
