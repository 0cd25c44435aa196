"""Made-up tables of outages, one of each kind."""

from __future__ import annotations

SACCT = """\
JobID|JobName|User|Partition|State|Submit|Start|End|Elapsed|NNodes|CPUTimeRAW|Timelimit|TimelimitRaw
1|pretrain|ada|gpu|NODE_FAIL|2030-01-01T00:00:00|2030-01-01T01:00:00|2030-01-01T11:00:00|10:00:00|4|4000|2-00:00:00|2880
1.batch|batch|ada|gpu|FAILED|2030-01-01T01:00:00|2030-01-01T01:00:00|2030-01-01T11:00:00|10:00:00|1|1000||
2|pretrain|ada|gpu|TIMEOUT|2030-01-01T11:30:00|2030-01-01T12:00:00|2030-01-02T12:00:00|1-00:00:00|4|9600|1-00:00:00|1440
3|probe|ada|debug|CANCELLED by 1000|2030-01-02T00:00:00|2030-01-02T00:00:10|2030-01-02T00:01:10|00:01:00|1|1|01:00:00|60
4|pretrain|ada|gpu|COMPLETED|2030-01-02T12:00:00|2030-01-02T14:00:00|2030-01-02T16:00:00|02:00:00|4|800|Partition_Limit|60
"""

INCIDENTS = """\
when,tz,event,lost_hours,note
2030-01-01 00:00,UTC,launch,,
2030-01-03 12:30:15,CET,GPU fell off the bus,2.5,Xid 79
2030-01-05,,planned restart,0,new data
2030-01-06,,hang in all-reduce,,no NCCL timeout
2030-01-11,,emergency maintenance,4,
"""

CAUSES = """\
cause,category,count,percent
Broken GPU,GPU,6,50.0
Switch,Network,3,25.0
Bug in the loader,Software,3,12.0
"""

DEVICES = """\
gpu,location,event_time,duration_s,event
7,c1,2030-01-01 00:00:00,1000,OTB
8,c2,2030-01-01 10:00:00,,OTB
7,c1,2030-01-01 10:00:00,,DBE
9,c3,2030-01-02 06:00:00,99,OTB
"""

ATTEMPTS = """\
unix_start,pid,event_file_bytes
1900000000,500,40
1900000060,900,40
1900000180,100,40
"""

FACTS = """\
fact,value,unit,source
first start,2030-01-01,date,p. 1
second start,2030-01-11,date,p. 2
training complete,2030-01-31 12:00,UTC,p. 9
ideal time,15,days,p. 9
restarts,10,count (approx),p. 9
restarts told in a talk,20-25,count in 20 days,talk
restarts 2030-01-12 to 2030-01-14,8,count (at least),p. 3
hosts down per day,2,count,p. 4
longest stretches,1.5;2.5,days,p. 5
"""

BY_KIND = {
    "sacct": SACCT,
    "incidents": INCIDENTS,
    "causes": CAUSES,
    "devices": DEVICES,
    "attempts": ATTEMPTS,
    "facts": FACTS,
}
