#include "job/spec/default_method.h"

namespace dotresize {
namespace {

/// Returns true if `size` is the target and no other key but head, round_to and allow_larger is
/// set.
bool is_size_alone(v1::Method method) {
  if (!method.has_size()) return false;
  method.clear_size();
  method.clear_head();
  method.clear_round_to();
  method.clear_allow_larger();
  return method.ByteSizeLong() == 0;
}

}  // namespace

void complete_method(v1::Method& method) {
  if (!method.has_allocate()) {
    method.set_allocate(is_size_alone(method) ? v1::Method::auto_ : v1::Method::off);
  }
  if (method.has_name()) return;
  const bool allocates = method.allocate() == v1::Method::auto_;
  method.set_name(allocates ? v1::Method::slicegpt : v1::Method::pca_dotresize);
}

}  // namespace dotresize
