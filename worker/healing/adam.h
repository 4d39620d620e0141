#pragma once

namespace dotresize {

// Adam (Kingma and Ba, 2015), without weight decay.
inline constexpr double kAdamBeta1 = 0.9;
inline constexpr double kAdamBeta2 = 0.999;
inline constexpr double kAdamEpsilon = 1e-8;

}  // namespace dotresize
