"""Start the runner, which stands on this door and on the ONNX door: ``python -m jaxdml.directml MODEL.json``."""

import runpy

runpy.run_module("jaxdml._runner", run_name="__main__", alter_sys=True)
