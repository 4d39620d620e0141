#pragma once

// A sublayer (the attention or the MLP of a layer) from checkpoint to output: its weights, their
// names and shapes, reading, folding, and the forward pass.

#include "job/model/sublayers.h"
#include "worker/transformer/fold_sublayer.h"
#include "worker/transformer/forward.h"
#include "worker/transformer/layout.h"
#include "worker/transformer/load.h"
#include "worker/transformer/rotary.h"
#include "worker/transformer/stock_norm.h"
#include "worker/transformer/stored_tensors.h"
#include "worker/transformer/weights.h"
