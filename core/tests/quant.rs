//! Block formats by their properties: exact integer sums, quantization error, poisoned blocks, wrong lengths.
#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use doorbell_core::quant::{
    self, Activation, Buffer, Expanded, Half, Partials, QuantError, Type, q8_0, q8_1, q8_k,
};

/// A type with integer sums, where its scale is, and where its minimum's scale is.
struct Format(Type, usize, Option<usize>);

const INTEGER: [Format; 13] = [
    Format(Type::Q4_0, 0, None),
    Format(Type::Q4_1, 0, Some(2)),
    Format(Type::Q5_0, 0, None),
    Format(Type::Q5_1, 0, Some(2)),
    Format(Type::Q8_0, 0, None),
    Format(Type::Q2_K, 80, Some(82)),
    Format(Type::Q3_K, 108, None),
    Format(Type::Q4_K, 0, Some(2)),
    Format(Type::Q5_K, 0, Some(2)),
    Format(Type::Q6_K, 208, None),
    Format(Type::IQ4_NL, 0, None),
    Format(Type::IQ4_XS, 0, None),
    Format(Type::MXFP4, 0, None),
];

/// The block's integers: its values with the scales at 1 and 0, or 0 and 1.
fn integers(format: &Format, block: &[u8], scale: f32, minimum: f32) -> Vec<i64> {
    let mut block = block.to_vec();
    let Format(ty, at, minimum_at) = *format;
    if ty == Type::MXFP4 {
        block[at] = 128;
    } else {
        block[at..at + 2].copy_from_slice(&Half::new(scale).0);
    }
    if let Some(at) = minimum_at {
        block[at..at + 2].copy_from_slice(&Half::new(minimum).0);
    }
    let mut values = vec![0.0; ty.block_len()];
    quant::dequantize(ty, &block, &mut values).unwrap();
    values.iter().map(|value| *value as i64).collect()
}

/// Codes as an activation block of the format, under scale 1.
fn activation(format: Activation, codes: &[i8]) -> Vec<u8> {
    let d = Half::new(1.0);
    match format {
        Activation::Q8_0 => {
            bytemuck::bytes_of(&q8_0::Block { d, qs: codes[..32].try_into().unwrap() }).to_vec()
        }
        Activation::Q8_1 => {
            let block = q8_1::Block { d, s: d, qs: codes[..32].try_into().unwrap() };
            bytemuck::bytes_of(&block).to_vec()
        }
        _ => {
            let sums = codes.chunks(16).map(|codes| codes.iter().map(|code| i16::from(*code)).sum::<i16>());
            let sums: Vec<_> = sums.map(i16::to_le_bytes).collect();
            let d = 1f32.to_le_bytes();
            let qs = codes.try_into().unwrap();
            bytemuck::bytes_of(&q8_k::Block { d, qs, bsums: sums.try_into().unwrap() }).to_vec()
        }
    }
}

fn check_sums(format: &Format, block: &[u8], codes: &[i8]) {
    let ty = format.0;
    let sum = |integers: Vec<i64>| -> i64 {
        integers.iter().zip(codes).map(|(weight, code)| weight * i64::from(*code)).sum()
    };
    let products = sum(integers(format, block, 1.0, 0.0));
    let minima = if format.2.is_some() { sum(integers(format, block, 0.0, 1.0)) } else { 0 };
    // Only the 32-element formats add their minimum.
    let minima = if ty.block_len() == 32 { minima } else { -minima };
    let input = activation(ty.activation().unwrap(), codes);
    let mut found = [Partials::default()];
    quant::partials(ty, block, &input, &mut found).unwrap();
    assert_eq!((found[0].products.into(), found[0].minima.into()), (products, minima), "{ty}");
}

#[test]
fn integer_sums_are_exact_at_the_extremes() {
    let ramp: Vec<i8> = (0..256).map(|i| (i as u8).cast_signed()).collect();
    for format in &INTEGER {
        for weight in [0x00, 0xFF, 0x80, 0x7F, 0x0F, 0xF0, 0x55] {
            let block = vec![weight; format.0.block_bytes()];
            for code in [-128, -127, 0, 1, 127] {
                check_sums(format, &block, &[code; 256]);
            }
            check_sums(format, &block, &ramp);
        }
    }
}

#[test]
fn integer_sums_are_exact_on_random_blocks() {
    arbtest::arbtest(|bytes| {
        let format = bytes.choose(&INTEGER)?;
        let block = bytes.bytes(format.0.block_bytes())?;
        let codes = bytes.bytes(256)?.iter().map(|byte| byte.cast_signed());
        check_sums(format, block, &codes.collect::<Vec<_>>());
        Ok(())
    })
    .size_min(1000)
    .budget_ms(300);
}

#[test]
fn dot_is_the_sum_over_blocks() {
    let blocks = [0x3Cu8; 3 * 144];
    let values: Vec<f32> = (0..768).map(|i| (i % 17) as f32 - 8.0).collect();
    let mut input = vec![0; 3 * 292];
    Activation::Q8_K.quantize(&values, &mut input).unwrap();
    let whole = quant::dot(Type::Q4_K, &blocks, &input).unwrap();
    let parts = blocks.chunks(144).zip(input.chunks(292));
    let parts: f32 = parts.map(|(block, input)| quant::dot(Type::Q4_K, block, input).unwrap()).sum();
    assert!((whole - parts).abs() <= whole.abs() * 1e-6, "{whole} {parts}");
    assert_ne!(whole, 0.0);
}

#[test]
fn q8_1_survives_sums_beyond_half_precision() {
    let mut input = [0; 36];
    Activation::Q8_1.quantize(&[3000.0; 32], &mut input).unwrap();
    let stored = Half([input[2], input[3]]).get();
    assert_eq!(stored, f32::INFINITY);
    let mut block = [0; 20];
    block[2..4].copy_from_slice(&Half::new(1.0).0);
    let dot = quant::dot(Type::Q4_1, &block, &input).unwrap();
    assert!((dot - 96_000.0).abs() < 50.0, "{dot}");
}

#[test]
fn faults_in_activations_reach_the_dot_product() {
    for format in [Activation::Q8_0, Activation::Q8_1, Activation::Q8_K] {
        for fault in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let mut values = vec![1.0; format.block_len()];
            values[7] = fault;
            let mut input = vec![0; format.block_bytes()];
            format.quantize(&values, &mut input).unwrap();
            let tested = INTEGER.iter().filter(|row| row.0.activation() == Some(format));
            for Format(ty, ..) in tested {
                let weights = vec![0x31; ty.block_bytes()];
                assert!(quant::dot(*ty, &weights, &input).unwrap().is_nan(), "{ty} {fault}");
            }
        }
    }
}

fn check_quantized(format: Activation, values: &[f32]) {
    let mut input = vec![0; format.block_bytes()];
    format.quantize(values, &mut input).unwrap();
    let (d, codes): (f32, &[u8]) = match format {
        Activation::Q8_K => (f32::from_le_bytes(input[..4].try_into().unwrap()), &input[4..260]),
        Activation::Q8_1 => (Half([input[0], input[1]]).get(), &input[4..]),
        _ => (Half([input[0], input[1]]).get(), &input[2..]),
    };
    // Half a step, and what rounding the scale to half precision moves the largest code by: relative, or
    // absolute where the scale is subnormal.
    let slack = if format == Activation::Q8_K { 1e-4 } else { 127.0 * 0.0006 };
    for (value, code) in values.iter().zip(codes) {
        let code = code.cast_signed();
        assert_ne!(code, -128);
        let error = (value - d * f32::from(code)).abs();
        assert!(
            error <= d.abs() * (0.5 + slack) + 127.0 * 2f32.powi(-25),
            "{format}: {value} became {d} * {code}"
        );
    }
    if let Activation::Q8_K = format {
        for (sum, codes) in input[260..].chunks(2).zip(codes.chunks(16)) {
            let expected: i16 = codes.iter().map(|code| i16::from(code.cast_signed())).sum();
            assert_eq!(i16::from_le_bytes(sum.try_into().unwrap()), expected);
        }
    }
}

#[test]
fn quantized_values_are_within_half_a_step() {
    arbtest::arbtest(|bytes| {
        let format = *bytes.choose(&[Activation::Q8_0, Activation::Q8_1, Activation::Q8_K])?;
        let exponent = bytes.int_in_range(-10..=10)?;
        let mut value = || -> arbtest::arbitrary::Result<f32> {
            Ok(f32::from(bytes.arbitrary::<i16>()?) / 32768.0 * 2f32.powi(exponent))
        };
        let values: Result<Vec<_>, _> = (0..format.block_len()).map(|_| value()).collect();
        check_quantized(format, &values?);
        Ok(())
    })
    .size_min(1000)
    .budget_ms(300);
}

#[test]
fn any_bytes_are_a_block() {
    arbtest::arbtest(|bytes| {
        let types: Vec<_> = Type::all().filter(|ty| ty.activation().is_some()).collect();
        let ty = *bytes.choose(&types)?;
        let block = bytes.bytes(ty.block_bytes())?;
        let format = ty.activation().unwrap();
        let input = bytes.bytes(format.row_bytes(ty.block_len()).unwrap())?;
        quant::dequantize(ty, block, &mut vec![0.0; ty.block_len()]).unwrap();
        quant::dot(ty, block, input).unwrap();
        Ok(())
    })
    .size_min(2000)
    .budget_ms(300);
}

#[test]
fn expanded_codes_are_small_whatever_the_bytes() {
    arbtest::arbtest(|bytes| {
        let types: Vec<_> = Type::all().filter(|ty| ty.expands()).collect();
        assert_eq!(types.len(), 9);
        let ty = *bytes.choose(&types)?;
        let mut expanded = Expanded::ZERO;
        quant::expand(ty, bytes.bytes(ty.block_bytes())?, &mut expanded).unwrap();
        assert!(expanded.codes.iter().all(|code| *code < 128), "{ty}");
        Ok(())
    })
    .size_min(2000)
    .budget_ms(300);
    assert!(quant::expand(Type::Q4_K, &[0; 144], &mut { Expanded::ZERO }).is_err());
    assert!(quant::expand(Type::IQ2_S, &[0; 81], &mut { Expanded::ZERO }).is_err());
}

#[test]
fn types_without_arithmetic_are_refused() {
    let refused: Vec<_> = Type::all().filter(|ty| ty.activation().is_none()).collect();
    assert_eq!(refused.len(), 15);
    for ty in refused {
        let fault = Err(QuantError::NotComputable { ty });
        assert_eq!(quant::dequantize(ty, &[], &mut []), fault);
        assert_eq!(quant::dot(ty, &[], &[]), fault.map(|()| 0.0));
    }
    let fault = Err(QuantError::NoPartials { ty: Type::F16 });
    assert_eq!(quant::partials(Type::F16, &[], &[], &mut []), fault);
}

#[test]
fn wrong_lengths_are_named() {
    let length = |buffer, expected, found| QuantError::Length { buffer, expected, found };
    let error = quant::dequantize(Type::Q4_K, &[0; 145], &mut [0.0; 256]).unwrap_err();
    assert_eq!(error, length(Buffer::Weights, 144, 145));
    let error = quant::dequantize(Type::Q4_K, &[0; 144], &mut [0.0; 255]).unwrap_err();
    assert_eq!(error, length(Buffer::Values, 256, 255));
    let error = quant::dot(Type::Q4_K, &[0; 144], &[0; 291]).unwrap_err();
    assert_eq!(error, length(Buffer::Activations, 292, 291));
    let error = quant::partials(Type::Q4_K, &[0; 144], &[0; 292], &mut []).unwrap_err();
    assert_eq!(error, length(Buffer::Partials, 1, 0));
    let error = Activation::Q8_0.quantize(&[0.0; 33], &mut [0; 34]).unwrap_err();
    assert_eq!(error, QuantError::Ragged { block_len: 32, found: 33 });
    assert_eq!(error.to_string(), "33 elements are no whole number of blocks of 32");
}
