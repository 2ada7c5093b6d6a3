//! On macOS a library whose symbols come from Python needs to be told so.

fn main() {
    pyo3_build_config::add_extension_module_link_args();
}
