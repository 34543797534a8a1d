//! Where a scenario comes from: a suite that is built in, or a file.

use std::path::Path;

use anyhow::{Context, Result};
use lab::Scenario;

use crate::cmd::failure::Usage;

/// The text of a suite, or of a file. A suite wins, so that a file beside it changes nothing.
#[expect(clippy::disallowed_methods, reason = "a file that the user names")]
pub(super) fn text(name: &str) -> Result<String> {
    if let Some(suite) = lab::suite(name) {
        return Ok(suite.text.to_owned());
    }
    let path = Path::new(name);
    if !path.exists() {
        let suites = lab::suites().iter().map(|suite| suite.name).collect::<Vec<_>>().join(", ");
        return Err(Usage(format!("no suite and no file is called {name}; the suites are {suites}")).into());
    }
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {name}"))?;
    String::from_utf8(bytes).map_err(|_| Usage(format!("{name} is not UTF-8")).into())
}

/// The scenario with all of its cases, or with those of these ids.
pub(in crate::cmd) fn scenario(name: &str, cases: &[String]) -> Result<Scenario> {
    let scenario = Scenario::parse(&text(name)?).map_err(|error| Usage(format!("{name}: {error}")))?;
    scenario.only(cases).map_err(|error| Usage(error.to_string()).into())
}
