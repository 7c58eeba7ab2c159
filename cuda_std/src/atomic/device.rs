//! The instructions. Their operands are literals of the ordering and the scope, hence macros.

/// `atom` with one argument; evaluates to the bits before.
macro_rules! atom {
    ($scope:literal, $op:expr, $register:ident, $pointer:expr, $order:ident, $argument:ident) => {
        ordered!($order, $scope, "atom.", concat!(".", $scope, ".", $op, " {}, [{}], {};"),
            $register, $pointer, in($register) $argument)
    };
}

/// `atom.cas`; evaluates to the bits before.
macro_rules! cas {
    ($scope:literal, $width:literal, $register:ident, $pointer:expr, $order:ident,
        $current:ident, $new:ident) => {
        ordered!($order, $scope, "atom.", concat!(".", $scope, ".cas.b", $width, " {}, [{}], {}, \
            {};"),
            $register, $pointer, in($register) $current, in($register) $new)
    };
}

macro_rules! ordered {
    ($order:ident, $scope:literal, $head:literal, $tail:expr, $register:ident, $pointer:expr,
        $($arguments:tt)*) => {{
        let pointer = $pointer as u64;
        let old;
        macro_rules! with {
            ($name:literal) => {
                core::arch::asm!(concat!($head, $name, $tail), out($register) old,
                    in(reg64) pointer,
                    $($arguments)*, options(nostack))
            };
        }
        // SAFETY: the pointer is that of a live number.
        unsafe {
            match $order {
                Ordering::Relaxed => with!("relaxed"),
                Ordering::Acquire => with!("acquire"),
                Ordering::Release => with!("release"),
                Ordering::AcqRel => with!("acq_rel"),
                _ => {
                    core::arch::asm!(concat!("fence.sc.", $scope, ";"), options(nostack));
                    with!("acquire")
                }
            }
        }
        old
    }};
}

/// `ld`; evaluates to the bits.
macro_rules! load {
    ($scope:literal, $width:literal, $register:ident, $pointer:expr, $order:ident) => {{
        let pointer = $pointer as u64;
        let bits;
        macro_rules! with {
                ($name:literal) => {
                    core::arch::asm!(concat!("ld.", $name, ".", $scope, ".b", $width, " {}, [{}];"),
                        out($register) bits, in(reg64) pointer, options(nostack))
                };
            }
        // SAFETY: the pointer is that of a live number.
        unsafe {
            match $order {
                Ordering::Relaxed => with!("relaxed"),
                Ordering::Acquire => with!("acquire"),
                Ordering::SeqCst => {
                    core::arch::asm!(concat!("fence.sc.", $scope, ";"), options(nostack));
                    with!("acquire")
                }
                _ => panic!("no load releases"),
            }
        }
        bits
    }};
}

/// `st`.
macro_rules! store {
    ($scope:literal, $width:literal, $register:ident, $pointer:expr, $order:ident,
        $bits:ident) => {{
        let pointer = $pointer as u64;
        macro_rules! with {
                ($name:literal) => {
                    core::arch::asm!(concat!("st.", $name, ".", $scope, ".b", $width, " [{}], {};"),
                        in(reg64) pointer, in($register) $bits, options(nostack))
                };
            }
        // SAFETY: the pointer is that of a live number.
        unsafe {
            match $order {
                Ordering::Relaxed => with!("relaxed"),
                Ordering::Release => with!("release"),
                Ordering::SeqCst => {
                    core::arch::asm!(concat!("fence.sc.", $scope, ";"), options(nostack));
                    with!("relaxed")
                }
                _ => panic!("no store acquires"),
            }
        }
    }};
}
