//! An A of 32-bit elements that lies along M: instructions read such from no shared memory, so that
//! threads bring it to their registers.

use super::side::Part;
use super::{ROW_BYTES, Side, Summing, WarpGroup, write};
use crate::SharedTile;
use core::array::from_fn;
use cuda_std::wgmma::{self, Accumulate, Accumulator, B128, KMajor, Tile};
use cuda_std::{shared, thread};
use gemm_spec::GemmParams;

/// Boxes of 32 elements along M and 32 of K, two for each 64 rows of A, which no instruction reads:
/// what stands for their parts is where the first of both lies.
pub struct BoxesOfWords;

impl Side<wgmma::Tf32> for BoxesOfWords {
    type Major = KMajor;
    type Swizzle = B128;
    const ALONG_K: bool = false;
    const BOX: usize = super::GROUP_ROWS;
    const IS_HALVED: bool = true;

    #[inline(always)]
    unsafe fn first(tiles: SharedTile<super::Rows64<wgmma::Tf32>>) -> Part<wgmma::Tf32, Self> {
        // SAFETY: the caller's promise.
        unsafe { tiles.k_major() }
    }

    #[inline(always)]
    unsafe fn parts(tile: Part<wgmma::Tf32, Self>) -> [Part<wgmma::Tf32, Self>; 4] {
        [tile; 4]
    }
}

/// As [`InPlace`](super::InPlace), with A from registers. Steps take two sets of them in turn: one
/// is loaded while the products of the other go on.
///
/// An instruction wants of each thread four elements: of rows `g` and `g` + 8 of its warp's 16, at
/// K `t` and `t` + 4 of 8, with `g` its lane / 4 and `t` its lane % 4 (PTX ISA, "Register Fragments
/// for wgmma.mma_async"). In the swizzled boxes those of one kind lie in half of the banks for all
/// lanes; so each load takes another kind for each `t`, which is every bank once.
#[derive(Clone, Copy)]
pub struct FromRegisters;

/// A tile of [`FromRegisters`].
pub struct Fragments {
    /// Of the latest step and of the one before: those of each instruction.
    of_steps: [[[u32; 4]; 4]; 2],
    /// From a group's boxes to what each load takes for the first instruction.
    from: [usize; 4],
    /// The thread's `t`.
    member: usize,
    /// The number of its group.
    group: usize,
}

/// Rows of K of an instruction.
const DEPTH: usize = 8;

impl<T: WarpGroup, const SUMS: usize> Summing<T, SUMS> for FromRegisters
where
    [T::Sum; SUMS]: Accumulator<T>,
{
    type Tile = Fragments;
    const TURNS: usize = 2;
    const EPILOGUES: bool = true;

    #[inline(always)]
    unsafe fn begin(self, _: &GemmParams<T::Sum>, _: (u64, u64)) -> Fragments {
        let number = write::thread_of_group();
        let (warp, group, member) = (number / 32, number % 32 / 4, number % 4);
        let from = from_fn(|load| {
            let kind = load ^ member;
            let (row, k) = (16 * (warp % 2) + group + kind % 2 * 8, member + kind / 2 * 4);
            let chunk = (row / 4) ^ k;
            warp / 2 * 32 * ROW_BYTES + k * ROW_BYTES + 16 * chunk + row % 4 * 4
        });
        let of_group = thread::thread_idx_x() as usize / 128 - 1;
        Fragments { of_steps: [[[0; 4]; 4]; 2], from, member, group: of_group }
    }

    #[inline(always)]
    unsafe fn multiply<A: Side<T>, B: Side<T>>(
        tile: &mut Fragments,
        sums: &mut [T::Sum; SUMS],
        a: [Part<T, A>; 4],
        b: [Part<T, B>; 4],
        turn: usize,
        is_first: bool,
    ) {
        const { assert!(size_of::<T>() == 4 && A::IS_HALVED) };
        // SAFETY: the caller's promise; all places lie in the group's two boxes.
        unsafe {
            let boxes: SharedTile<Tile<T, 64, A::Swizzle>> =
                a[0].tile(shared::dynamic_shared_mem::<u8>());
            for i in 0..4 {
                let load = |load: usize| {
                    let from = boxes.cast::<u8>().add(tile.from[load] + i * DEPTH * ROW_BYTES);
                    from.cast::<u32>().read()
                };
                tile.of_steps[turn][i] = exchanged(from_fn(load), tile.member);
            }
            wgmma::fence(&mut (&mut *sums, &mut tile.of_steps[turn]));
            let [first, others @ ..] = &tile.of_steps[turn];
            let start = if is_first { Accumulate::Start } else { Accumulate::Continue };
            wgmma::multiply_registers(sums, first, b[0], start);
            for (a, b) in others.iter().zip(&b[1..]) {
                wgmma::multiply_registers(sums, a, *b, Accumulate::Continue);
            }
            wgmma::commit_group();
            wgmma::wait_group::<1, _>(&mut (&mut *sums, &mut tile.of_steps[1 - turn]));
            // The stage before goes back next, which all have read then.
            write::sync_number(tile.group);
        }
    }

    #[inline(always)]
    unsafe fn end_turns(tile: &mut Fragments, sums: &mut [T::Sum; SUMS], turn: usize) {
        // SAFETY: the caller's promise.
        unsafe { wgmma::wait_group::<0, _>(&mut (sums, &mut tile.of_steps[turn])) }
    }

    #[inline(always)]
    unsafe fn end(_: &mut [T::Sum; SUMS]) {}
}

/// The words of the kinds 0 to 3, out of those of the kinds 0 ^ `by` to 3 ^ `by`.
#[inline(always)]
fn exchanged(words: [u32; 4], by: usize) -> [u32; 4] {
    let [a, b, c, d] = words;
    let pick = |is_other, one, other| if is_other { other } else { one };
    let (is_odd, is_high) = (by & 1 != 0, by & 2 != 0);
    let (a, b) = (pick(is_odd, a, b), pick(is_odd, b, a));
    let (c, d) = (pick(is_odd, c, d), pick(is_odd, d, c));
    [pick(is_high, a, c), pick(is_high, b, d), pick(is_high, c, a), pick(is_high, d, b)]
}
