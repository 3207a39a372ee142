"""What holds for every test: signals have their usual effect, also where CI started the tests with some ignored."""

import signal

# A shell's background job ignores SIGINT and nohup ignores SIGHUP, and children inherit that; the tests send both.
for _number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, signal.default_int_handler if _number is signal.SIGINT else signal.SIG_DFL)
