//! Compares the fits with scipy, for three rounds of eight numbers of clients. The reference values are from `numpy.polyfit` of
//! ln X on ln N for the power law; `scipy.optimize.least_squares` with bounds 0 on σ and κ and tolerances 1e-15 for Amdahl's
//! law and the USL; a grid of 200,001 knees for the hinge; and `scipy.stats.f.sf` for F and p.

use super::*;
use crate::scaling::series::{Series, tests::unreplicated};

const N: [f64; 8] = [1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0];
const USL: [[f64; 8]; 3] = [
    [101.2, 185.3, 254.1, 305.8, 371.0, 402.5, 401.1, 374.8],
    [99.1, 188.0, 250.9, 309.2, 368.4, 399.0, 404.2, 371.9],
    [100.3, 186.9, 256.0, 303.1, 374.2, 405.3, 398.8, 376.0],
];
const AMDAHL: [[f64; 8]; 3] = [
    [98.9, 180.1, 252.0, 304.7, 401.1, 470.3, 575.9, 640.8],
    [101.5, 183.6, 247.3, 310.2, 396.0, 476.2, 566.8, 648.1],
    [100.2, 181.4, 250.8, 306.9, 399.5, 472.8, 573.3, 642.0],
];
const POWER: [[f64; 8]; 3] = [
    [34.1, 41.0, 47.3, 50.4, 57.9, 61.8, 70.3, 75.6],
    [33.8, 42.1, 46.2, 51.5, 56.6, 62.9, 69.1, 76.8],
    [34.3, 41.6, 46.9, 50.7, 57.2, 62.3, 69.9, 76.0],
];
const HINGE: [[f64; 8]; 3] = [
    [50.2, 99.0, 151.2, 201.0, 229.9, 231.4, 228.7, 230.5],
    [49.7, 101.3, 148.8, 198.7, 231.6, 228.9, 231.8, 229.4],
    [50.4, 100.1, 150.6, 200.3, 230.2, 230.8, 229.6, 231.1],
];

fn choose_law(x: &[[f64; 8]; 3]) -> LawChoice {
    let row = |(round, x): (usize, &[f64; 8])| -> Vec<(f64, u32, f64)> {
        N.iter().zip(x).map(|(n, x)| (*n, round as u32, *x)).collect()
    };
    let rows: Vec<_> = x.iter().enumerate().flat_map(row).collect();
    LawChoice::of(&Series::new("s", &rows).unwrap()).unwrap()
}

fn assert_near(value: f64, expected: f64) {
    assert!((value - expected).abs() <= 1e-4 * expected.abs(), "{value} is not {expected}");
}

fn fit(choice: &LawChoice, name: &str) -> ScoredFit {
    *choice.fits.iter().find(|fit| fit.law.name() == name).unwrap()
}

#[test]
fn data_of_a_power_law_select_it() {
    let choice = choose_law(&POWER);
    let fit = choice.winner().unwrap();
    let Law::Power { a, b } = fit.law else { panic!("{fit:?}") };
    assert_near(a, 34.039029);
    assert_near(b, 0.28989297);
    assert_near(fit.aicc, -221.600965);
    assert_near(fit.lack_of_fit.unwrap().f, 0.074377017);
    assert_near(fit.lack_of_fit.unwrap().p, 0.99792266);
    assert_eq!(choice.contenders().len(), 1);
}

#[test]
fn data_of_the_universal_scalability_law_select_it() {
    let choice = choose_law(&USL);
    let fit = choice.winner().unwrap();
    let Law::Usl { lambda, sigma, kappa } = fit.law else { panic!("{fit:?}") };
    assert_near(lambda, 100.678281);
    assert_near(sigma, 0.06658623);
    assert_near(kappa, 0.00963537);
    assert_near(fit.rss, 0.0014093379);
    assert_near(fit.aicc, -223.719275);
    assert_near(fit.lack_of_fit.unwrap().f, 0.7769803);
    assert_near(fit.lack_of_fit.unwrap().p, 0.5804394);
    assert_near(fit.r_squared, 0.99971701);
    assert_near(fit.law.peak().unwrap(), ((1.0f64 - 0.06658623) / 0.00963537).sqrt());
}

#[test]
fn data_of_amdahls_law_select_it_and_not_a_usl_without_coherency() {
    let choice = choose_law(&AMDAHL);
    let fit = choice.winner().unwrap();
    let Law::Amdahl { lambda, sigma } = fit.law else { panic!("{fit:?}") };
    assert_near(lambda, 99.912679);
    assert_near(sigma, 0.09932123);
    assert_near(fit.aicc, -226.702933);
    assert_near(fit.lack_of_fit.unwrap().p, 0.91397315);
    assert!(choice.fits.iter().all(|fit| fit.law.name() != "universal scalability law"));
}

#[test]
fn data_of_a_hinge_select_it() {
    let choice = choose_law(&HINGE);
    let fit = choice.winner().unwrap();
    let Law::Hinge { a, b, knee } = fit.law else { panic!("{fit:?}") };
    assert_near(a, 50.1053489);
    assert_near(b, 0.99878695);
    assert_near(knee, 4.6052983);
    assert_near(fit.aicc, -237.155347);
}

#[test]
fn a_wrong_law_can_have_a_high_r_squared() {
    // The power law has R² = 0.98 on data of Amdahl's law, but a significant lack of fit.
    let fit = fit(&choose_law(&AMDAHL), "power law");
    assert_near(fit.r_squared, 0.98396885);
    assert_near(fit.lack_of_fit.unwrap().f, 279.731683);
    assert!(fit.lack_of_fit.unwrap().p < 1e-14);
}

#[test]
fn few_points_allow_only_laws_with_two_parameters() {
    let doubled = [(1.0, 100.0), (2.0, 180.0), (4.0, 300.0), (8.0, 420.0), (16.0, 500.0)];
    let choice = LawChoice::of(&unreplicated(&doubled)).unwrap();
    // Five points carry two parameters and the variance, not three.
    assert!(choice.fits.iter().all(|fit| fit.law.curve_parameters() == 2 && fit.lack_of_fit.is_none()), "{choice:?}");
    assert!(LawChoice::of(&unreplicated(&doubled[..2])).is_none());
}

#[test]
fn a_step_exists_if_the_parameters_have_the_same_effect() {
    // With two numbers of clients, σ and κ have the same effect on the curve: the equations are singular without damping.
    let candidate = Candidate::of(&[(1.0, 0.0), (3.0, 0.5)], [0.3, 0.7]);
    assert!(candidate.step(&[(1.0, 0.0), (3.0, 0.5)], LEAST_DAMPING).is_some());
}
