#include "ops/context.h"

namespace plumb {

void observe(Context& context, const std::string& module, const char* quantity, const Tensor& value) {
  if (!context.observer) return;
  if (!context.again) context.observer->forward({module, quantity}, value);
  if (!context.records(value)) return;
  context.tape->record([observer = context.observer, module, quantity, value] {
    if (const Tensor gradient = value.grad(); gradient.defined()) {
      observer->backward({module, quantity}, value, gradient);
    }
  });
}

}  // namespace plumb
