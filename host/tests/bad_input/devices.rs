//! Devices that are others, and texts of PTX that are none.

use super::{Answers, ones};
use gemmite::{Device, DeviceEpilogue, DeviceMatrix, F8E4M3, Gemm, emulator};
use std::sync::Arc;

pub fn places(answers: &mut Answers) {
    let (one, two, cpu) =
        (Device::emulator((8, 0)).unwrap(), Device::emulator((8, 0)).unwrap(), Device::cpu());
    answers.add("an emulated GPU that there is not", Device::emulator((6, 1)));
    answers.add("one of u32::MAX", Device::emulator((u32::MAX, u32::MAX)));
    let on = |device: &Device| device.upload(&ones::<f32>(4, 4)).unwrap();
    let (a, b, mut c) = (on(&one), on(&two), on(&one));
    let host = on(&cpu);
    let gemm = Gemm::<f32>::new();
    answers.add("a B on another GPU", gemm.run_device(&a, &b, &mut c));
    answers.add("an A on the CPU", gemm.run_device(&host, &a, &mut c));
    answers.add("a C on the CPU", gemm.run_device(&a, &a, &mut on(&cpu)));
    let stream = two.stream().unwrap();
    answers.add("another GPU's stream", gemm.enqueue(&stream, &a, &a, &mut c));
    let stream = cpu.stream().unwrap();
    answers.add("the CPU's stream", gemm.enqueue(&stream, &a, &a, &mut c));
    let none = || DeviceEpilogue::<f32>::new();
    let mut fused = |name: &str, epilogue| {
        answers.add(name, gemm.fused(epilogue).run_device(&a, &a, &mut c));
    };
    fused("a bias on another GPU", none().bias(&b));
    fused("a residual on the CPU", none().residual(&host));
    let (mut amax, mut four) = (two.upload(&ones::<f32>(1, 1)).unwrap(), on(&one));
    fused("an amax on another GPU", none().amax(&mut amax));
    fused("an amax of 16 elements", none().amax(&mut four));

    let hopper = Device::emulator((9, 0)).unwrap();
    let of = |device: &Device, rows, cols| device.upload(&ones::<f32>(rows, cols)).unwrap();
    let f8 = |device: &Device| device.upload(&ones::<F8E4M3>(4, 4)).unwrap();
    let (scales, elsewhere) = ((of(&hopper, 4, 1), of(&hopper, 1, 1)), of(&one, 1, 1));
    let scaled = Gemm::<F8E4M3>::new().block_scaled();
    let mut c: DeviceMatrix<gemmite::bf16> = hopper.uninit(ones::<f32>(4, 4).shape()).unwrap();
    let (a, b) = (f8(&hopper), f8(&hopper));
    let run = scaled.run_device((&a, &scales.0), (&b, &elsewhere), &mut c);
    answers.add("scales on another GPU", run);
    let run = scaled.enqueue(&stream, (&a, &scales.0), (&b, &scales.1), &mut c);
    answers.add("scales and the CPU's stream", run);
}

pub fn texts_of_ptx(answers: &mut Answers) {
    let kernel = gemm_spec::Kernel::find("k01_naive", gemmite::DType::F32).unwrap();
    let text = emulator::ptx_of(kernel);
    let multiply = |text: String| {
        let options = emulator::Options { ptx: Some(Arc::from(text)), ..Default::default() };
        let gpu = Device::emulator_with(&options).unwrap();
        let a = ones::<f32>(4, 4);
        Gemm::new().kernel("k01_naive").run(&gpu, &a, &a)
    };
    assert_eq!(multiply(text.clone()).unwrap().as_slice(), [4.0; 16]);
    // Without the entry it is the library's kernel that runs, as the option says.
    assert_eq!(multiply("\0\u{ffff} no PTX".into()).unwrap().as_slice(), [4.0; 16]);
    let entry = text.find(".visible .entry").unwrap();
    let body = entry + text[entry..].find('{').unwrap();
    let inside = |more: &str| format!("{}\n{more}\n{}", &text[..=body], &text[body + 1..]);
    let before = |more: &str| format!("{}\n{more}\n{}", &text[..entry], &text[entry..]);
    let mut add = |name: &str, text| answers.add(name, multiply(text));
    add("PTX that ends within a kernel", text[..=body].to_owned());
    add("PTX without a header", text[entry..].to_owned());
    add("PTX with a word of nonsense", inside("nonsense.f32 %f1;"));
    add("PTX with an unknown register", inside("mov.u32 %unknown, 1;"));
    add("PTX with four billion registers", inside(".reg .b32 %many<4294967295>;"));
    add("PTX with registers beyond u32", inside(".reg .b32 %many<4294967296>;"));
    add("PTX with a TiB of local memory", inside(".local .b8 big[1099511627775];"));
    add("PTX with a GiB of shared memory", inside(".shared .b8 big[1073741824];"));
    add("PTX with 64 GiB of global memory", before(".global .b8 big[68719476736];"));
    add("PTX with an array beyond u64", before(".global .b64 big[4294967296][4294967296];"));
    add("PTX with an alignment of 2^40", before(".global .align 1099511627776 .b8 x;"));
}
