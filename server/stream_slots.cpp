#include "server/stream_slots.h"

#include "server/api_error.h"

namespace dotresize {

StreamSlots::Slot::Slot(StreamSlots& slots) : slots_(slots) {
  if (slots_.free_.fetch_sub(1) > 0) return;
  ++slots_.free_;
  throw ApiError(grpc::StatusCode::RESOURCE_EXHAUSTED, "TOO_MANY_STREAMS",
                 "too many clients follow jobs on this server; try again later");
}

void StreamSlots::check_stopping() const {
  if (!stopping_) return;
  throw ApiError(grpc::StatusCode::UNAVAILABLE, "SERVER_STOPPING",
                 "the server is stopping; its jobs go on, connect again to follow them");
}

}  // namespace dotresize
