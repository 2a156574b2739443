"""A second copy of what DirectML's header and page say of ARGMIN."""

import jaxdml
from jaxdml import directml as dml
from tests.structs.argmax import struct

STRUCTS = (struct(dml.ArgminOperatorDesc, "ARGMIN", 137, jaxdml.argmin),)
