// The types are tried from the most particular to none at all.
#include <penstock/pipeline/engine/failure_text.h>

namespace penstock::engine {

FailureText failure_text(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const DataError& data) {
    return {data.kind(), data.what()};
  } catch (const std::exception& other) {
    return {ErrorKind::kUserCode, other.what()};
  } catch (int value) {
    return {ErrorKind::kUserCode, "the integer " + std::to_string(value) + " was thrown"};
  } catch (const char* text) {
    return {ErrorKind::kUserCode, text};
  } catch (const std::string& text) {
    return {ErrorKind::kUserCode, text};
  } catch (...) {
    return {ErrorKind::kUserCode, "something that is no std::exception was thrown"};
  }
}

}  // namespace penstock::engine
