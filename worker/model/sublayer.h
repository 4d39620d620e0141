#pragma once

// A sublayer (the attention or the MLP of a layer) from checkpoint to output: its weights, their
// names and shapes, reading, folding, and the forward pass.

#include "job/sublayers.h"
#include "worker/model/fold_sublayer.h"
#include "worker/model/forward.h"
#include "worker/model/layout.h"
#include "worker/model/load.h"
#include "worker/model/rotary.h"
#include "worker/model/stock_norm.h"
#include "worker/model/stored_tensors.h"
#include "worker/model/weights.h"
