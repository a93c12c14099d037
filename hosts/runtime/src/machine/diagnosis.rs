//! The report of `doctor`: findings with their remedies, in the order in which they prevent the use of a GPU.

use super::read::{Host, Machine};
use super::size::Size;
use core::fmt;
use doorbell_kfd::doctor::{Finding, Severity};
use doorbell_kfd::topology::Candidate;
use serde_json::{Value as Json, json};

/// The overall result: can a GPU be used?
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// Yes.
    Usable,
    /// Yes, but something should be fixed, or the model doesn't fit.
    Warned,
    /// No.
    Unusable,
}

/// The findings about a machine.
#[derive(Clone, Copy, Debug)]
pub struct Diagnosis<'m> {
    machine: &'m Machine,
}

impl Machine {
    /// The findings about GPUs that can't be used, or not at full speed.
    #[must_use]
    pub fn diagnosis(&self) -> Diagnosis<'_> {
        Diagnosis { machine: self }
    }
}

impl<'m> Diagnosis<'m> {
    fn findings(&self) -> &'m [Finding] {
        &self.machine.examination.findings
    }

    /// The overall result. What is fatal for one GPU is a warning where another one works.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        let worst = self.machine.examination.worst();
        if self.machine.choice.is_none() {
            Verdict::Unusable
        } else if worst > Some(Severity::Note) {
            Verdict::Warned
        } else {
            Verdict::Usable
        }
    }

    /// One document: `verdict`, `kernel`, `interface`, `gpus`, `model`, `findings`.
    #[must_use]
    pub fn json(&self) -> Json {
        let examination = &self.machine.examination;
        let finding = |finding: &Finding| {
            let remedy = finding.remedy().to_string();
            json!({
                "severity": severity(finding.severity()),
                "message": finding.to_string(),
                "remedy": (!remedy.is_empty()).then_some(remedy),
            })
        };
        json!({
            "verdict": match self.verdict() {
                Verdict::Usable => "usable",
                Verdict::Warned => "warned",
                Verdict::Unusable => "unusable",
            },
            "kernel": examination.release.as_str(),
            "interface": examination.version.map(|version| version.to_string()),
            "gpus": examination.devices.len(),
            "preferred": self.machine.choice.map(|choice| choice.device.identity.to_string()),
            "model": self.machine.footprint.as_ref().map(|footprint| json!({
                "name": footprint.name,
                "bytes": footprint.bytes,
                "fits": self.machine.choice.map(|choice| footprint.bytes <= choice.device.bytes),
            })),
            "findings": self.findings().iter().map(finding).collect::<Vec<_>>(),
        })
    }

    /// The report about a machine whose CPU runs models.
    fn without_gpu(&self, f: &mut fmt::Formatter<'_>, finding: &Finding) -> fmt::Result {
        writeln!(
            f,
            "{finding}: neither a PCI device of AMD that computes nor a node of the kernel's driver"
        )?;
        let Host { threads, extensions, memory } = &self.machine.host;
        write!(f, "the CPU runs models: {threads} threads, {extensions}")?;
        let Some(memory) = memory else { return writeln!(f) };
        writeln!(f, ", {} of memory available", Size(memory.available))?;
        let Some(footprint) = &self.machine.footprint else { return Ok(()) };
        let verb = if footprint.bytes <= memory.available { "fits" } else { "does not fit" };
        writeln!(f, "{} needs {}: {verb} into memory", footprint.name, Size(footprint.bytes))
    }

    fn model(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Some(footprint), Some(choice)) = (&self.machine.footprint, &self.machine.choice) else {
            return Ok(());
        };
        let verb = if footprint.bytes <= choice.device.bytes { "fits" } else { "does not fit" };
        let (needed, available) = (Size(footprint.bytes), Size(choice.device.bytes));
        writeln!(f, "{} needs {needed}: {verb} into {available}", footprint.name)
    }
}

fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Note => "note",
        Severity::Warning => "warning",
        Severity::Fatal => "error",
    }
}

impl fmt::Display for Diagnosis<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let examination = &self.machine.examination;
        // nothing else matters then
        if let [only @ Finding::NoGpu] = self.findings() {
            return self.without_gpu(f, only);
        }
        write!(f, "kernel {}", examination.release)?;
        match examination.version {
            Some(version) => writeln!(f, ", KFD interface {version}")?,
            None => writeln!(f, ", KFD not reached")?,
        }
        for (candidate, budget) in examination.devices.iter().zip(&examination.budgets) {
            let Candidate { isa, kind, identity, gpu_id, .. } = candidate;
            writeln!(f, "{}: {isa} at {identity}, {kind}, {budget}", self.machine.name(*gpu_id))?;
        }
        self.model(f)?;
        for finding in self.findings() {
            writeln!(f, "{}: {finding}", severity(finding.severity()))?;
            let remedy = finding.remedy().to_string();
            if !remedy.is_empty() {
                writeln!(f, "    {remedy}")?;
            }
        }
        match self.verdict() {
            Verdict::Usable => writeln!(f, "the GPU can be used"),
            Verdict::Warned => writeln!(f, "the GPU can be used, with the warnings above"),
            Verdict::Unusable => writeln!(f, "no GPU can be used"),
        }
    }
}
