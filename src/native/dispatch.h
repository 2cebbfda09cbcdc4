// Which build of the kernel this processor runs; the variable ASSAY_ISA names another one, for tests.
#pragma once
#include "kernel.h"

namespace assay {
const Kernel& chosen_kernel();
}
