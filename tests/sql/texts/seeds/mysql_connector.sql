create source connector source01 from mysql with
    ( "host" = "mysql-s1"
    , "port" = 3306
    , "user" = "root"
    , "password" = "password"
    , "database" = "d1"
    , "table" = "person"
    , "stream" = "stream01"
    );
