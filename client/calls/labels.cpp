#include "client/calls/labels.h"

#include "base/errors.h"
#include "base/text/printable.h"

namespace dotresize {

void add_labels(const std::vector<std::string>& texts,
                google::protobuf::Map<std::string, std::string>& labels) {
  for (const std::string& text : texts) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos) {
      throw InputError("--label", in_quotes(text) + " is not KEY=VALUE");
    }
    labels[text.substr(0, equals)] = text.substr(equals + 1);
  }
}

}  // namespace dotresize
