//! A law by which throughput may grow.

/// A law with its parameters. N is the number of clients, X the throughput.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Law {
    /// ln X = ln a + b·ln N.
    Power {
        /// Throughput of one client.
        a: f64,
        /// The exponent: 1 doubles with the clients, 0 does not grow.
        b: f64,
    },
    /// Amdahl 1967: X = λN / (1 + σ(N−1)). It levels off at λ/σ and never falls.
    Amdahl {
        /// Throughput of one client.
        lambda: f64,
        /// The share that is done one after another.
        sigma: f64,
    },
    /// Gunther 1993, universal scalability law: X = λN / (1 + σ(N−1) + κN(N−1)), σ, κ ≥ 0.
    Usl {
        /// Throughput of one client.
        lambda: f64,
        /// Contention: the share that is done one after another.
        sigma: f64,
        /// Coherency: what every pair of clients costs.
        kappa: f64,
    },
    /// ln X = ln a + b·min(ln N, ln Nₛ): a power law up to Nₛ, level behind it.
    Hinge {
        /// Throughput of one client.
        a: f64,
        /// The exponent before the knee.
        b: f64,
        /// The knee Nₛ.
        knee: f64,
    },
}

/// A law as it was fitted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fitted {
    /// The law.
    pub law: Law,
    /// The sum of squared residuals of ln X.
    pub rss: f64,
}

impl Fitted {
    pub(super) fn of(law: Law, points: &[(f64, f64)]) -> Fitted {
        Fitted { law, rss: points.iter().map(|(n, y)| (y - law.ln_at(*n)).powi(2)).sum() }
    }
}

impl Law {
    /// What people call it.
    pub fn name(&self) -> &'static str {
        match self {
            Law::Power { .. } => "power law",
            Law::Amdahl { .. } => "Amdahl's law",
            Law::Usl { .. } => "universal scalability law",
            Law::Hinge { .. } => "hinge",
        }
    }

    /// How many parameters it has, the variance of its residuals among them, as AICc counts them (Burnham and
    /// Anderson 2002).
    pub fn parameters(&self) -> usize {
        self.shape() + 1
    }

    /// How many parameters its curve has.
    pub fn shape(&self) -> usize {
        match self {
            Law::Power { .. } | Law::Amdahl { .. } => 2,
            Law::Usl { .. } | Law::Hinge { .. } => 3,
        }
    }

    /// ln X at N clients.
    pub fn ln_at(&self, n: f64) -> f64 {
        match *self {
            Law::Power { a, b } => a.ln() + b * n.ln(),
            Law::Amdahl { lambda, sigma } => usl_at(n, lambda.ln(), sigma, 0.0),
            Law::Usl { lambda, sigma, kappa } => usl_at(n, lambda.ln(), sigma, kappa),
            Law::Hinge { a, b, knee } => a.ln() + b * n.min(knee).ln(),
        }
    }

    /// The number of clients at which it peaks, √((1−σ)/κ), where it does beyond one client.
    pub fn peak(&self) -> Option<f64> {
        match *self {
            Law::Usl { sigma, kappa, .. } if kappa > 0.0 && sigma < 1.0 => {
                Some(((1.0 - sigma) / kappa).sqrt()).filter(|peak| *peak > 1.0)
            }
            _ => None,
        }
    }
}

/// ln X of the law.
pub(super) fn usl_at(n: f64, ln_lambda: f64, sigma: f64, kappa: f64) -> f64 {
    ln_lambda + n.ln() - cost(n, sigma, kappa).ln()
}

/// What N clients cost: 1 + σ(N−1) + κN(N−1).
pub(super) fn cost(n: f64, sigma: f64, kappa: f64) -> f64 {
    1.0 + sigma * (n - 1.0) + kappa * n * (n - 1.0)
}
