//! Operands: names and numbers to slots.

use super::builder::{Builder, Entity};
use super::instruction::{FALSE, NEGATED, Predicate, SINK, Slot, TRUE};
use super::modifiers::bits;
use super::module::{LaneMask, Special, Value, constant_bits};
use crate::error::Error;
use crate::memory::Space;
use crate::syntax::ast::{self, Constant, Name, Operand, Type};

/// What stands in brackets, looked up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Address {
    pub base: Slot,
    pub offset: i64,
    /// The address is relative to the function's frame in local memory.
    pub frame: bool,
    /// The state space of the variable that it names.
    pub home: Option<Space>,
}

impl Builder<'_, '_> {
    fn invalid(&self, message: String) -> Error {
        Error::invalid(self.at, message)
    }

    /// A source of a type, in a register of exactly its bits, or a constant.
    pub fn source(&mut self, operand: &Operand, ty: Type) -> Result<Slot, Error> {
        self.typed_source(operand, ty, |register, wanted| register == wanted)
    }

    /// A source of a type in a register of its bits or of more: of stores and conversions.
    pub fn wide_source(&mut self, operand: &Operand, ty: Type) -> Result<Slot, Error> {
        self.typed_source(operand, ty, |register, wanted| register >= wanted)
    }

    fn typed_source(
        &mut self,
        operand: &Operand,
        ty: Type,
        fits: impl Fn(u32, u32) -> bool,
    ) -> Result<Slot, Error> {
        let wanted = bits(ty);
        match operand {
            Operand::Constant(constant) => self.typed_constant(*constant, ty),
            Operand::Name(name) => match self.lookup(name)? {
                Entity::Register(slot, width) if fits(width, wanted) => Ok(slot),
                Entity::Register(_, width) => Err(self.invalid(format!(
                    "`{name}` has {width} bits where the instruction takes {wanted}"
                ))),
                Entity::Special(special) => Ok(self.special(special)),
                Entity::Clock { .. } if wanted > 64 => {
                    Err(Error::unsupported(self.at, format!("`{name}` as {wanted} bits")))
                }
                Entity::Clock { high } => Ok(self.read_clock(wanted, high)),
                Entity::Predicate(_) => {
                    Err(self.invalid(format!("the predicate `{name}` where a number is taken")))
                }
                Entity::Vector(_) => {
                    Err(self.invalid(format!("the vector `{name}` where a scalar is taken")))
                }
                _ => self.address_of(name, 0),
            },
            Operand::NameOffset(name, offset) => self.address_of(name, *offset),
            Operand::Element(name, _) => {
                Err(Error::unsupported(self.at, format!("the address of an element, `{name}[..]`")))
            }
            other => Err(self.invalid(format!("{other:?} is no operand here"))),
        }
    }

    /// A constant of a type.
    pub fn typed_constant(&mut self, constant: Constant, ty: Type) -> Result<Slot, Error> {
        let value = constant_bits(constant, ty);
        let value = value.ok_or_else(|| self.invalid(format!("{constant:?} is no {ty:?}")))?;
        Ok(self.constant(Value::Bits(value)))
    }

    /// The address of a variable in its own space.
    fn address_of(&mut self, name: &Name, offset: i64) -> Result<Slot, Error> {
        Ok(match self.lookup(name)? {
            Entity::Shared(address) => {
                self.constant(Value::Shared(address.wrapping_add_signed(offset)))
            }
            Entity::DynamicShared => self.constant(Value::DynamicShared(offset)),
            Entity::Variable(index, _) => self.constant(Value::Variable(index, offset)),
            Entity::Parameter(place) => {
                self.constant(Value::Bits(place.wrapping_add_signed(offset)))
            }
            Entity::Function(address) => {
                self.constant(Value::Bits(address.wrapping_add_signed(offset)))
            }
            Entity::Frame(place) => {
                let slot = self.register();
                let place = place.wrapping_add_signed(offset);
                self.add_unguarded(crate::machine::frame_address(slot, place));
                slot
            }
            _ => return Err(self.invalid(format!("`{name}` has no address"))),
        })
    }

    fn read_clock(&mut self, bits: u32, high: bool) -> Slot {
        let slot = self.register();
        self.add_unguarded(crate::machine::read_clock(slot, bits, high));
        slot
    }

    /// A destination in a register of exactly the type's bits.
    pub fn destination(&mut self, operand: &Operand, ty: Type) -> Result<Slot, Error> {
        let wanted = bits(ty);
        let (slot, width) = self.wide_destination(operand, ty)?;
        if width != wanted {
            return Err(self.invalid(format!(
                "the destination has {width} bits where the instruction gives {wanted}"
            )));
        }
        Ok(slot)
    }

    /// A destination in a register of at least the type's bits, and the register's bits.
    pub fn wide_destination(&mut self, operand: &Operand, ty: Type) -> Result<(Slot, u32), Error> {
        let wanted = bits(ty);
        match operand {
            Operand::Sink => Ok((0, wanted)),
            Operand::Name(name) => match self.lookup(name)? {
                Entity::Register(slot, width) if width >= wanted => Ok((slot, width)),
                Entity::Register(_, width) => Err(self.invalid(format!(
                    "`{name}` has {width} bits where the instruction gives {wanted}"
                ))),
                _ => Err(self.invalid(format!("`{name}` can't be written"))),
            },
            other => Err(self.invalid(format!("{other:?} can't be written"))),
        }
    }

    /// A predicate that is read; a number is true if it isn't 0.
    pub fn predicate_source(&mut self, operand: &Operand) -> Result<Predicate, Error> {
        match operand {
            Operand::Name(name) => self.named_predicate(name),
            Operand::Negated(name) => Ok(self.named_predicate(name)? ^ NEGATED),
            Operand::Constant(Constant::Integer(value)) => {
                Ok(if *value == 0 { FALSE } else { TRUE })
            }
            other => Err(self.invalid(format!("{other:?} is no predicate"))),
        }
    }

    fn named_predicate(&mut self, name: &Name) -> Result<Predicate, Error> {
        match self.lookup(name)? {
            Entity::Predicate(predicate) => Ok(predicate),
            _ => Err(self.invalid(format!("`{name}` is not a predicate"))),
        }
    }

    /// A predicate that is written.
    pub fn predicate_destination(&mut self, operand: &Operand) -> Result<Predicate, Error> {
        match operand {
            Operand::Sink => Ok(SINK),
            Operand::Name(name) => self.named_predicate(name),
            other => Err(self.invalid(format!("{other:?} is no predicate"))),
        }
    }

    /// Whether an operand is a predicate register, or a negated one.
    pub fn is_predicate(&mut self, operand: &Operand) -> bool {
        match operand {
            Operand::Name(name) => matches!(self.lookup(name), Ok(Entity::Predicate(_))),
            Operand::Negated(_) => true,
            _ => false,
        }
    }

    /// The elements of a vector operand; an operand that isn't one is its own only element.
    pub fn elements(&mut self, operand: &Operand) -> Result<Vec<Operand>, Error> {
        match operand {
            Operand::Vector(elements) => Ok(elements.clone()),
            Operand::Name(name) if self.is_declared(name) => match self.lookup(name)? {
                Entity::Vector(names) => Ok(names.into_iter().map(Operand::Name).collect()),
                _ => Ok(vec![operand.clone()]),
            },
            _ => Ok(vec![operand.clone()]),
        }
    }

    fn is_declared(&mut self, name: &Name) -> bool {
        self.lookup(name).is_ok()
    }

    /// An address in brackets without coordinates.
    pub fn address(&mut self, operand: &Operand) -> Result<Address, Error> {
        match operand {
            Operand::Address(address) if address.coordinates.is_empty() => {
                self.address_base(address)
            }
            other => Err(self.invalid(format!("{other:?} is no address"))),
        }
    }

    /// An address in brackets, its coordinates left aside.
    pub fn address_base(&mut self, address: &ast::Address) -> Result<Address, Error> {
        let Some(name) = &address.base else {
            let base = self.constant(Value::Bits(0));
            return Ok(Address { base, offset: address.offset, frame: false, home: None });
        };
        let mut result = Address { base: 0, offset: address.offset, frame: false, home: None };
        match self.lookup(name)? {
            Entity::Register(slot, width @ (32 | 64)) => {
                let _ = width;
                result.base = slot;
            }
            Entity::Frame(place) => {
                result.base = self.constant(Value::Bits(place));
                result.frame = true;
                result.home = Some(Space::Local);
            }
            Entity::Parameter(_) => {
                result.base = self.address_of(name, 0)?;
                result.home = Some(Space::Param);
            }
            Entity::Shared(_) | Entity::DynamicShared => {
                result.base = self.address_of(name, 0)?;
                result.home = Some(Space::Shared);
            }
            Entity::Variable(_, space) => {
                result.base = self.address_of(name, 0)?;
                let constant = space == ast::Space::Const;
                result.home = Some(if constant { Space::Const } else { Space::Global });
            }
            _ => return Err(self.invalid(format!("`{name}` is no address"))),
        }
        Ok(result)
    }
}

/// The special register of a name.
pub(super) fn special(name: &str) -> Option<Entity> {
    let (register, axis) = match name.rsplit_once('.') {
        Some((register, "x")) => (register, Some(0)),
        Some((register, "y")) => (register, Some(1)),
        Some((register, "z")) => (register, Some(2)),
        Some((register, "w")) => (register, Some(3)),
        _ => (name, None),
    };
    let of_axis: Option<fn(usize) -> Special> = match register {
        "%tid" => Some(Special::Thread),
        "%ntid" => Some(Special::BlockSize),
        "%ctaid" => Some(Special::Block),
        "%nctaid" => Some(Special::GridSize),
        "%clusterid" => Some(Special::Cluster),
        "%nclusterid" => Some(Special::ClusterCount),
        "%cluster_ctaid" => Some(Special::BlockInCluster),
        "%cluster_nctaid" => Some(Special::ClusterSize),
        _ => None,
    };
    if let (Some(of_axis), Some(axis)) = (of_axis, axis) {
        return Some(Entity::Special(if axis == 3 { Special::Zero } else { of_axis(axis) }));
    }
    let special = match name {
        "%laneid" => Special::Lane,
        "%warpid" => Special::Warp,
        "%nwarpid" => Special::WarpCount,
        "%lanemask_eq" => Special::LaneMask(LaneMask::Equal),
        "%lanemask_lt" => Special::LaneMask(LaneMask::Less),
        "%lanemask_le" => Special::LaneMask(LaneMask::LessEqual),
        "%lanemask_gt" => Special::LaneMask(LaneMask::Greater),
        "%lanemask_ge" => Special::LaneMask(LaneMask::GreaterEqual),
        "%cluster_ctarank" => Special::ClusterRank,
        "%cluster_nctarank" => Special::ClusterRanks,
        "%is_explicit_cluster" => Special::ExplicitCluster,
        "%smid" => Special::Multiprocessor,
        "%nsmid" => Special::Multiprocessors,
        "%gridid" => Special::GridId,
        "%dynamic_smem_size" => Special::DynamicShared,
        "%total_smem_size" | "%aggr_smem_size" => Special::TotalShared,
        "%clock" | "%clock64" | "%globaltimer" | "%globaltimer_lo" => {
            return Some(Entity::Clock { high: false });
        }
        "%clock_hi" | "%globaltimer_hi" => return Some(Entity::Clock { high: true }),
        _ => return None,
    };
    Some(Entity::Special(special))
}

/// The operands, if there are as many as wanted.
pub(crate) fn exactly<const N: usize>(
    instruction: &ast::Instruction,
) -> Result<&[Operand; N], Error> {
    instruction.operands.as_slice().try_into().map_err(|_| {
        let (opcode, given) = (&instruction.opcode, instruction.operands.len());
        Error::invalid(instruction.at, format!("{opcode} takes {N} operands, {given} are given"))
    })
}
