#pragma once

#include "worker/maps/map_algorithm.h"

namespace dotresize {

/// The channels of the support; the others are dropped (docs/method.md, "Maps", end of step 4). The
/// scores are mean squares: in the PCA basis the eigenvalues.
extern const MapAlgorithm kSelectionMap;

}  // namespace dotresize
