"""Run the models of DxDispatch, DirectML's own runner: ``python -m jaxdml.directml MODEL.json``."""
