//! Loads of real machines, built into the program.

use isomer::loads::read;
use isomer_lab::ordered::Load;
use isomer_plan::generate::LoadTrace;

const GOOGLE: &[u8] = include_bytes!("../../../data/google_machine_load.csv.zst");
const AZURE: &[u8] = include_bytes!("../../../data/azure_vm_cpu.csv.zst");
/// Machines of synthetic loads.
const WANDERING: usize = 64;

/// Reads a built-in load, or generates one.
pub(crate) fn built_in(load: Load) -> Result<LoadTrace, String> {
    match load {
        Load::Google => read(GOOGLE, None),
        Load::Azure => read(AZURE, None),
        Load::Wandering => LoadTrace::wandering(WANDERING).map_err(|error| error.to_string()),
    }
}
