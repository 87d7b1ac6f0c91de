/* SQLite's archive asks for these for the sake of functions in SQL, ranking and
 * geometry, none of which a statement of ours uses. Loading the mathematics
 * library for them would cost a quarter of a millisecond at every start. They
 * are hidden: a module that calculates gets the real ones. */
#define NAN_OF_ONE(name)                                                       \
    __attribute__((visibility("hidden"))) double name(double x);               \
    double name(double x)                                                      \
    {                                                                          \
        (void)x;                                                               \
        return __builtin_nan("");                                              \
    }

#define NAN_OF_TWO(name)                                                       \
    __attribute__((visibility("hidden"))) double name(double x, double y);     \
    double name(double x, double y)                                            \
    {                                                                          \
        (void)x;                                                               \
        (void)y;                                                               \
        return __builtin_nan("");                                              \
    }

NAN_OF_ONE(acos)
NAN_OF_ONE(acosh)
NAN_OF_ONE(asin)
NAN_OF_ONE(asinh)
NAN_OF_ONE(atan)
NAN_OF_ONE(atanh)
NAN_OF_ONE(cos)
NAN_OF_ONE(cosh)
NAN_OF_ONE(exp)
NAN_OF_ONE(log)
NAN_OF_ONE(sin)
NAN_OF_ONE(sinh)
NAN_OF_ONE(sqrt)
NAN_OF_ONE(tan)
NAN_OF_ONE(tanh)
NAN_OF_ONE(trunc)
NAN_OF_TWO(atan2)
NAN_OF_TWO(fmod)
NAN_OF_TWO(pow)
